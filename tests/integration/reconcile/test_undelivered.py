"""UNDELIVERED: what no relay delivers, the reconciliation does; what can't be delivered it reports, and whose fault it
is."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
import temporalio.client

from perdure import PerdurePlugin
from perdure._reconcile import undelivered as module
from perdure._reconcile.undelivered import undelivered
from perdure.errors import TemporalUnavailable
from perdure.testing.proxy import proxied
from tests.apps.bodies import app
from tests.integration.reconcile.reconciling import Reconciling
from tests.integration.services.test_rows_in_the_way import Busy
from tests.world import World


async def test_what_was_committed_while_no_relay_runs_is_delivered(world: World, parts: Reconciling) -> None:
    await world.db.execute("select perdure.start('repeat', n::text, '{}') from generate_series(1, 3) n")
    async with world.worker(app, relay=False):
        assert await parts.run(undelivered, grace=600) == []  # a relay may still come
        assert await world.db.fetchval("select count(*) from perdure.outbox") == 3
        assert await parts.run(undelivered) == [("undelivered", None, True)]
        await world.until(lambda: world.db.fetchval("select count(*) = 3 from perdure.finished"), "all done")
    assert "3 rows of the outbox were delivered that no relay had looked at since" in await parts.said("undelivered")
    assert parts.beats[-1] == 3
    assert await parts.run(undelivered) == []
    assert set(world.counterparty.accepted.values()) == {1}


async def test_two_reconciliations_beside_a_relay_deliver_everything_once(world: World, parts: Reconciling) -> None:
    await world.db.execute("select perdure.start('lookup-inline', n::text, '{}') from generate_series(1, 80) n")
    async with world.worker(app):
        contexts = [await parts.context(), await parts.context()]
        await asyncio.gather(*(undelivered(context, None) for context in contexts))
        # None hinders another. A row that Temporal was too busy to accept in time is tried again.
        errors = await world.db.fetch("select distinct error from perdure.outbox where error is not null")
        assert {each["error"] for each in errors} <= {"Timeout expired"}
        await world.until(lambda: world.db.fetchval("select count(*) = 80 from perdure.finished"), "all done")
    assert world.counterparty.accepted == {f"lookup-inline/{number}/do-lookup-inline": 1 for number in range(1, 81)}
    assert await world.db.fetchval("select count(*) from perdure.finding where not mended") == 0


async def test_rejected_rows_beyond_the_reported_ones_are_a_finding(
    world: World, parts: Reconciling, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = "select perdure.start('repeat', n::text, '{\"seconds\": \"soon\"}') from generate_series($1::int, $2) n"
    monkeypatch.setattr(module, "MOST", 2)
    more = "select what, advice from perdure.finding where about = 'rejected'"
    async with world.worker(app):
        await world.db.execute(start, 1, 2)
        await world.until(lambda: world.db.fetchval("select count(*) = 2 from perdure.rejected"), "rejected")
        assert len(await parts.run(undelivered)) == 2
        assert await world.db.fetchrow(more) is None
        await world.db.execute(start, 3, 3)
        await world.until(lambda: world.db.fetchval("select count(*) = 3 from perdure.rejected"), "rejected")
        await parts.run(undelivered)
    assert tuple(await world.db.fetchrow(more) or ()) == (
        "more than 2 rows of open entities were rejected: only the oldest 2 are findings",
        "perdure rejected list",
    )


async def test_what_can_not_be_delivered_is_reported_and_harms_nothing_else(world: World, parts: Reconciling) -> None:
    await world.db.execute("""
        select perdure.start('repeat', id, '{}') from unnest(array['kept back', 'without a workflow']) id;
        delete from perdure.outbox where id = 'without a workflow';
        select perdure.cancel('repeat', 'without a workflow', 'ann');
        update perdure.outbox set tries = 30, error = 'no answer', not_before = now() + interval '20 s',
            created_at = created_at - interval '1 hour';
        select perdure.start('repeat', 'unfit', '{"seconds": "soon"}');
    """)
    async with world.worker(app, relay=False):
        found = await parts.run(undelivered)
        await world.ended("repeat", "kept back")  # an outage had done that, so it is not reported
    assert found == [
        ("undelivered", None, True),
        ("undelivered", "unfit", False),
        ("undelivered", "without a workflow", False),
    ]
    rows = await world.db.fetch("select what, advice from perdure.finding where id <> '' order by id")
    [of_unfit, of_other] = [(row["what"], row["advice"]) for row in rows]
    assert "its start was rejected: repeat: the input does not fit: seconds" in of_unfit[0]
    assert of_unfit[1].startswith("perdure rejected retry ")
    assert "its message was tried 31 times" in of_other[0]
    assert "no workflow of repeat/without a workflow is open in Temporal" in of_other[0]
    assert of_other[1].endswith("perdure show repeat 'without a workflow'")


async def test_a_name_that_no_worker_knows_is_reported_with_how_much_waits_for_it(
    world: World, parts: Reconciling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure._reconcile.undelivered.STANDSTILL", 1.0)  # nothing can be delivered: no use in waiting
    await world.db.execute("""
        select perdure.start('unheard-of', n::text, '{}') from generate_series(1, 3) n;
        select perdure.start('counter', 'a', '{}');
        select perdure.signal('counter', 'a', 'tel', '1')
    """)
    await parts.run(undelivered)
    found = await world.db.fetch("select what from perdure.finding where about like 'unknown %' order by about")
    assert [row["what"].partition(" wait since ")[0] for row in found] == [
        "1 rows of the outbox",
        "3 rows of the outbox",
    ]
    assert [row["what"].partition("UTC: ")[2] for row in found] == [
        "no running worker has a handler of counter for the signal 'tel'; did you mean 'tell'?",
        "no running worker has a lifecycle named 'unheard-of'",
    ]


async def test_a_temporal_that_refuses_one_row_for_now_is_not_away(world: World, parts: Reconciling) -> None:
    await world.db.execute("select perdure.start('repeat', 'busy', '{}')")
    client = temporalio.client.Client(**(world.temporal_client.config() | {"interceptors": [Busy()]}))
    assert await parts.run(undelivered, temporal_client=client) == []
    assert await world.db.fetchval("select error from perdure.outbox") == "busy"


async def test_temporal_being_away_is_nobodys_fault(
    world: World, parts: Reconciling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure._services.delivery._RPC", timedelta(seconds=0.3))
    monkeypatch.setattr("perdure._reconcile.undelivered._ANSWER", timedelta(seconds=0.3))
    await world.db.execute("select perdure.start('repeat', 'a', '{}')")
    async with proxied(int(world.temporal.address.rpartition(":")[2])) as proxy:
        address, plugin = f"127.0.0.1:{proxy.port}", PerdurePlugin(app, world.config)
        temporal_client = await temporalio.client.Client.connect(address, plugins=[plugin])
        proxy.freeze(new_ones=True)
        with pytest.raises(TemporalUnavailable):
            await parts.run(undelivered, temporal_client=temporal_client)
    assert await world.db.fetchval("select count(*) from perdure.finding") == 0
