"""Workflows that were ended past perdure are noticed between two reconciliations, by one worker at a time."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import asyncpg
import pytest
from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig

from perdure._reconcile.watch import Watch
from perdure._services.gauges import Gauges
from perdure._services.queue_gauges import QueueGauges
from perdure._wire.carried import CARRIED, Carried
from perdure.servers.ports import free_port
from perdure.telemetry import names
from tests.apps.contracts import Booking
from tests.apps.failing import app
from tests.integration.reconcile.reconciling import begun, deleted, is_open, terminated
from tests.integration.telemetry.test_metrics import Metered
from tests.world import World

pytestmark = pytest.mark.world(app, reconciliation_every=24.0)

OFTEN = 0.2
PLACE = "select id from perdure.watch"
TAKEN = "select looked_at from perdure.watch"


@pytest.fixture
def everything_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written a moment ago is compared, too."""
    monkeypatch.setattr("perdure._reconcile.watch._YOUNG", timedelta(seconds=-60))


def watch_of(world: World, every: float = OFTEN) -> Watch:
    return Watch(world.client._pool, world.temporal_client, app, world.config, None, every)


async def is_there(world: World, query: str) -> bool:
    """Whether `query` is true, after one more turn."""
    await watch_of(world).once()
    return bool(await world.db.fetchval(query))


@pytest.mark.usefixtures("everything_is_old")
async def test_what_was_terminated_or_deleted_is_noticed_and_counted_without_a_reconciliation(world: World) -> None:
    ended = "insert into perdure.reconciliation (asked_by, ended_at) values ('a test', now()) returning run"
    run = await world.db.fetchval(ended)
    async with world.worker(app):
        await begun(world, "staying/terminated", "stubborn/again", "staying/deleted", "staying/untouched")
        await terminated(world, "staying", "terminated", "an accident")
        await terminated(world, "stubborn", "again", "an accident")
        await deleted(world, "staying", "deleted")
        attention = "select attention from perdure.entity where id = 'terminated'"
        await world.until(partial(is_there, world, attention), "the terminated one wants a person")
        assert str(await world.db.fetchval(attention)).startswith("its workflow was terminated: an accident")
        found = "select true from perdure.finding where kind = 'vanished' and id = 'deleted'"
        await world.until(partial(is_there, world, found), "the deleted one is found")
        for lifecycle, id in (("stubborn", "again"), ("staying", "deleted")):
            await world.until(partial(is_open, world, lifecycle, id), f"{lifecycle}/{id} runs again")
        rows = await world.db.fetch("select kind, id, mended, run from perdure.finding order by id")
        assert [tuple(row) for row in rows] == [
            ("ended", "again", True, run),
            ("vanished", "deleted", True, run),
            ("ended", "terminated", False, run),
        ]
        assert await world.db.fetchval("select count(*) from perdure.reconciliation") == 1
        await counted(world)


@pytest.mark.usefixtures("everything_is_old")
async def test_a_workflow_whose_memo_can_not_be_read_is_treated_beside_the_others(world: World) -> None:
    await closed(world, "a", {CARRIED: {"generation": "none"}})
    await closed(world, "b", None)
    await world.db.execute("delete from perdure.outbox")
    attention = "select count(*) = 2 from perdure.entity where attention like 'its workflow was terminated%'"
    await world.until(partial(is_there, world, attention), "both want a person")
    await world.db.execute("delete from perdure.finding")
    await looked(world)
    assert await world.db.fetch("select * from perdure.finding") == [], "who needs a person is not looked at again"


@pytest.mark.usefixtures("everything_is_old")
async def test_a_reason_that_postgresql_can_not_store_is_shown_without_its_nul(world: World) -> None:
    await closed(world, "a", None, reason="out\0side")
    await world.db.execute("delete from perdure.outbox")
    attention = "select attention from perdure.entity"
    await world.until(partial(is_there, world, attention), "it needs a person")
    assert str(await world.db.fetchval(attention)).startswith("its workflow was terminated: out\ufffdside")
    assert await world.db.fetchval("select what from perdure.finding") == await world.db.fetchval(attention)


@pytest.mark.usefixtures("everything_is_old")
async def test_each_workflow_is_compared_with_the_generation_that_it_was_started_for(world: World) -> None:
    await closed(world, "outside, before", None, started=False)
    await world.client.start("staying", "outside, before", Booking())
    await closed(world, "restarted", {CARRIED: Carried()})
    await closed(world, "undone by a restore", {CARRIED: Carried(generation=1)})
    await closed(world, "same", {CARRIED: Carried()})
    await world.db.execute("delete from perdure.outbox")
    await closed(world, "on its way", {CARRIED: Carried()})
    for table in ("ident", "entity"):
        await world.db.execute(f"update perdure.{table} set generation = 1 where id = 'restarted'")
    attention = "select count(*) > 0 from perdure.entity where attention is not null"
    await world.until(partial(is_there, world, attention), "one wants a person")
    await looked(world)
    found = {row["id"]: row["kind"] for row in await world.db.fetch("select kind, id from perdure.finding")}
    assert found == {"outside, before": "vanished", "restarted": "vanished", "same": "ended"}


async def test_what_was_written_a_moment_ago_may_not_be_listed_yet_and_what_closed_before_may_be_listed_late(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure._reconcile.watch._YOUNG", timedelta(hours=1))
    await world.client.start("staying", "young", Booking())
    await closed(world, "closed", None)
    await world.db.execute("delete from perdure.outbox")
    await world.db.execute("update perdure.watch set closed_since = clock_timestamp()")
    attention = "select attention from perdure.entity where id = 'closed'"
    await world.until(partial(is_there, world, attention), "it wants a person")
    assert [row["id"] for row in await world.db.fetch("select id from perdure.finding")] == ["closed"]


async def looked(world: World) -> None:
    """One whole turn of the watch."""
    await world.db.execute("update perdure.watch set looked_at = null")
    await watch_of(world).once()


async def closed(
    world: World, entity_id: str, memo: dict[str, Any] | None, *, started: bool = True, reason: str = "an accident"
) -> None:
    """Start an entity, and a workflow of it that is terminated."""
    if started:
        await world.client.start("staying", entity_id, Booking())
    await world.temporal_client.start_workflow(
        "staying", id=f"{world.scope}:staying/{entity_id}", task_queue="nobody listens here", memo=memo
    )
    await terminated(world, "staying", entity_id, reason)


async def counted(world: World) -> None:
    """Make sure that the gauges show what was found, by lifecycle and kind."""
    port = free_port()
    runtime = Runtime(telemetry=TelemetryConfig(metrics=PrometheusConfig(f"127.0.0.1:{port}")))
    gauges = Gauges(world.client._pool, app, world.config, runtime.metric_meter)
    await gauges.once()
    queues = QueueGauges(world.temporal_client, app, world.config, runtime.metric_meter)
    here = Metered(port, world.temporal_client, gauges, queues)
    expected = {("staying", "ended"): 1, ("staying", "vanished"): 1, ("stubborn", "ended"): 1, ("faulty", "ended"): 0}
    for (lifecycle, kind), value in expected.items():
        assert await here.value(names.VANISHED, lifecycle=lifecycle, kind=kind) == value


@pytest.mark.usefixtures("everything_is_old")
async def test_a_turn_compares_as_much_as_it_may_and_the_next_one_goes_on_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world.worker(app):
        await begun(world, "staying/a", "staying/b", "staying/c")
    monkeypatch.setattr("perdure._reconcile.watch.PAGE", 1)
    monkeypatch.setattr("perdure._reconcile.watch.SHARE", 0.0)
    await world.db.execute("update perdure.watch set looked_at = null, lifecycle = '', id = ''")
    places = []
    for _ in range(5):
        taken = await world.db.fetchval(TAKEN)
        while await world.db.fetchval(TAKEN) == taken:
            await watch_of(world).once()
        places.append(await world.db.fetchval(PLACE))
    assert places == ["a", "b", "c", "", "a"]
    monkeypatch.setattr("perdure._reconcile.watch.SHARE", 600.0)
    await world.db.execute("update perdure.watch set looked_at = null")
    await watch_of(world).once()
    assert await world.db.fetchval(PLACE) == "a", "once around, and not further"


async def test_a_database_from_which_nothing_may_be_sent_is_not_watched(world: World) -> None:
    await world.db.execute("update perdure.database set stopped = 'a test'")
    with pytest.raises(asyncpg.PostgresError, match="nothing is sent from here: a test"):
        await watch_of(world).once()
    assert await world.db.fetchval(TAKEN) is None


async def test_the_workers_of_a_database_take_turns(world: World) -> None:
    async with world.worker(app):
        await begun(world, "staying/a")
    await world.db.execute("update perdure.watch set looked_at = clock_timestamp()")
    taken = await world.db.fetchval(TAKEN)
    await watch_of(world, every=20.0).once()
    assert await world.db.fetchval(TAKEN) == taken, "it is another worker's turn"
    await world.db.execute("update perdure.watch set looked_at = looked_at - interval '1 min'")
    await watch_of(world, every=20.0).once()
    assert await world.db.fetchval(TAKEN) > taken


async def test_a_turn_of_before_the_clock_went_back_does_not_count(world: World) -> None:
    await world.db.execute("update perdure.watch set looked_at = clock_timestamp() + interval '3 hours'")
    await watch_of(world).once()
    assert await world.db.fetchval("select looked_at <= now() from perdure.watch")
