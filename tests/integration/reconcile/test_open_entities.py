"""The pass over open entities repairs what it can and reports the rest; each test makes the difference for real."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any

import asyncpg
import pytest
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.client import Client, Interceptor, OutboundInterceptor

from perdure._reconcile.entities import open_entities
from perdure._services import guarded
from perdure._wire.names import MIRROR
from perdure.contracts.keys import Entity, Key
from tests.apps.contracts import Booking
from tests.apps.failing import app, other_app
from tests.deadline import in_time
from tests.integration.reconcile.reconciling import (
    OLD_ENOUGH,
    Reconciling,
    all_written,
    begun,
    deleted,
    is_open,
    put_back,
    reconciling,
    terminated,
)
from tests.world import World

pytestmark = pytest.mark.world(app, reconciliation_every=24.0)

FOUND_BY_NO_LIST = ('a"b', "a\\b")
REJECT = """
    with gone as (delete from perdure.outbox where id = $1 returning *)
    insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason)
    select seq, lifecycle, id, generation, kind, body, 'a test' from gone
"""
ODD_IDS = ("o'neil", *FOUND_BY_NO_LIST, "a,b", "100%", "ü (x)/y")


async def test_two_reconciliations_at_once_mend_each_difference_once(world: World, reconciliation: Reconciling) -> None:
    world.counterparty.replies += [{"refused": "no"}]
    await begun(world, "staying/vanished", "staying/unfinished", "stubborn/ended", "lookup/behind")
    await world.is_in("lookup", "behind", "failed")
    await world.handle("staying", "unfinished").signal("go")
    assert await world.ended("staying", "unfinished") == "out"
    await world.handle("staying", "unfinished").result()

    await world.db.execute("update perdure.ident set version = version - 1000 where id = 'behind'")
    await world.db.execute("update perdure.entity set state = 'doing' where id = 'behind'")
    await reconciliation.open_entities(asked_since=datetime.now(UTC) + timedelta(minutes=1))
    assert await reconciliation.found("behind") == []  # none is asked that has not written since

    await put_back(world, "staying", "unfinished", "in")
    await deleted(world, "staying", "vanished")
    await terminated(world, "stubborn", "ended", "an accident")

    found = await asyncio.gather(reconciliation.open_entities(), reconciliation.open_entities())

    assert await reconciliation.found("unfinished") == [("unfinished", "its workflow has ended as out: mirrored", True)]
    assert await world.ended("staying", "unfinished") == "out"
    assert [id for id, _, _ in await reconciliation.found("vanished")] == ["vanished"]
    assert (await reconciliation.found("ended"))[0][1].startswith("its workflow was terminated: an accident")
    assert [(id, mended) for id, _, mended in await reconciliation.found("behind")] == [("behind", True)]
    assert (await world.client.status("lookup", "behind")).state == "failed"
    for lifecycle, id in (("staying", "vanished"), ("stubborn", "ended")):
        await world.until(partial(is_open, world, lifecycle, id), f"{lifecycle}/{id} runs again")
        await world.handle(lifecycle, id).signal("go")
        assert await world.ended(lifecycle, id) == "out"
        made_by = await world.db.fetch("select made_by from perdure.transition where id = $1 and made_by <> ''", id)
        assert {row[0] for row in made_by} == {"reconciliation"}
    assert sum(sum(each.reported_now.values()) for each in found) == 0


async def test_why_a_person_is_needed_outlasts_a_reconciliation_and_the_loss_of_the_history(
    world: World, reconciliation: Reconciling
) -> None:
    world.counterparty.replies += [{"refused": "no"}]
    await begun(world, "lookup/a")
    await world.is_in("lookup", "a", "failed")
    why = (await world.client.status("lookup", "a")).attention
    assert why == "no"

    await world.db.execute("update perdure.ident set version = version - 1000")
    await world.db.execute("update perdure.entity set state = 'doing', attention = null")
    await reconciliation.open_entities()
    assert (await world.client.status("lookup", "a")).attention == why

    await deleted(world, "lookup", "a")
    await reconciliation.open_entities()
    await world.until(partial(is_open, world, "lookup", "a"), "lookup/a runs again")
    await world.db.execute("update perdure.entity set attention = null")
    await world.handle("lookup", "a").signal(MIRROR, "a test")

    async def needs_a_person() -> str | None:
        return (await world.client.status("lookup", "a")).attention

    assert await world.until(needs_a_person, "the mirror shows the reason") == why


async def test_a_state_that_a_late_write_of_a_newer_version_has_put_into_the_mirror_is_written_over(
    world: World, reconciliation: Reconciling
) -> None:
    world.counterparty.replies += [{"refused": "no"}]
    await begun(world, "lookup/a")
    await world.is_in("lookup", "a", "failed")
    await world.db.execute("update perdure.ident set version = version + 1000")
    await world.db.execute("update perdure.entity set state = 'doing', attention = null")
    await reconciliation.open_entities()
    seen = "its workflow was in 'failed', the mirror showed 'doing', and that no person was needed: mirrored again"
    assert await reconciliation.found("behind") == [("a", seen, True)]
    shown = await world.client.status("lookup", "a")
    assert (shown.state, shown.attention) == ("failed", "no")


async def test_a_doubt_that_is_over_needs_no_person_after_a_reconciliation(
    world: World, reconciliation: Reconciling
) -> None:
    """A late outcome has settled it while Temporal was lost. The run that continues from the record writes nothing."""
    other = "do-lookup was rejected: another reason, which stays"
    await begun(world, "staying/doubt", "staying/rejected")
    await world.db.execute("update perdure.entity set attention = 'do is in doubt: no answer' where id = 'doubt'")
    await world.db.execute("update perdure.entity set attention = $1 where id = 'rejected'", other)
    await reconciliation.open_entities(asked_since=datetime.now(UTC) + timedelta(minutes=1))
    seen = "its workflow was in 'in', the mirror showed 'in', and that a person was needed: mirrored again"
    assert await reconciliation.found("behind") == [("doubt", seen, True)]
    assert (await world.client.status("staying", "doubt")).attention is None
    await reconciliation.open_entities()
    assert len(await reconciliation.found("behind")) == 1
    assert (await world.client.status("staying", "rejected")).attention == other


async def test_an_end_whose_entity_another_session_holds_keeps_no_other_from_being_checked(
    world: World, reconciliation: Reconciling
) -> None:
    await begun(world, "staying/held", "staying/vanished")
    await _ended_behind_the_mirror(world, "held")
    await deleted(world, "staying", "vanished")
    async with _held(world):
        await reconciliation.open_entities()
    assert [id for id, _, _ in await reconciliation.found("vanished")] == ["vanished"]
    await reconciliation.open_entities()
    assert await reconciliation.found("unfinished") == [("held", "its workflow has ended as out: mirrored", True)]


async def test_an_end_whose_entity_another_session_holds_for_a_moment_is_mirrored_then(
    world: World, reconciliation: Reconciling
) -> None:
    await begun(world, "staying/held")
    await _ended_behind_the_mirror(world, "held")
    async with _held(world):
        looking = asyncio.create_task(reconciliation.open_entities())
        await world.held_up()
    await in_time(looking)
    assert await reconciliation.found("unfinished") == [("held", "its workflow has ended as out: mirrored", True)]
    assert await world.ended("staying", "held") == "out"


@asynccontextmanager
async def _held(world: World) -> AsyncIterator[None]:
    """Hold the entity `held` in a session of its own."""
    operator = await asyncpg.connect(world.dsn)
    try:
        async with operator.transaction():
            await operator.execute("select from perdure.ident where id = 'held' for no key update")
            yield
    finally:
        await operator.close()


async def _ended_behind_the_mirror(world: World, id: str) -> None:
    """Let a `staying` end, and make the mirror forget that."""
    await world.handle("staying", id).signal("go")
    assert await world.ended("staying", id) == "out"
    await world.handle("staying", id).result()
    await put_back(world, "staying", id, "in")


async def test_what_a_person_must_see_to_is_reported_with_what_to_do(world: World, reconciliation: Reconciling) -> None:
    world.counterparty.replies_to["parked"] = [{"close": True}]
    staying = [f"staying/{each}" for each in ("ended", "stuck", "input", "state")]
    await begun(world, *staying, "escalate/parked", "faulty/failing")
    moves = "select count(*) from perdure.transition where (id = 'ended') = $1"
    before_the_end = await world.db.fetchval(moves, True)  # the workers' own watch may see the end first
    await terminated(world, "staying", "ended", "an accident")
    await world.db.execute("update perdure.entity set stuck_at = now() - interval '1 hour' where id = 'stuck'")
    await world.db.execute("""update perdure.entity set input = '{"seconds": "many"}' where id = 'input'""")
    await world.db.execute("update perdure.entity set state = 'elsewhere' where id = 'state'")

    async def all_seen() -> bool:
        wants = "select count(*) from perdure.entity where attention is not null and id in ('parked', 'failing')"
        pending = (await world.handle("faulty", "failing").describe()).raw_description.pending_workflow_task
        return await world.db.fetchval(wants) == 2 and pending.attempt >= 3

    await world.until(all_seen, "parked, and failing for the third time")
    before = await world.db.fetchval(moves, False)
    await reconciliation.open_entities()
    await reconciliation.open_entities()  # said once, however often it is seen

    rows = await world.db.fetch("select * from perdure.finding order by kind, id")
    found = {(row["kind"], row["id"]): row for row in rows}
    assert set(found) == {
        ("ended", "ended"),
        ("failing", "failing"),
        ("parked", "parked"),
        ("stuck", "stuck"),
        ("unreadable", "input"),
        ("unreadable", "state"),
    }
    assert not any(row["mended"] for row in rows)
    assert "perdure retry staying ended --by YOU" in found["ended", "ended"]["advice"]
    assert "'elsewhere'" in found["unreadable", "state"]["what"]
    assert "seconds" in found["unreadable", "input"]["what"]
    assert "many" not in found["unreadable", "input"]["what"]
    assert "LookupError" in found["failing", "failing"]["what"]
    assert "bob@" not in found["failing", "failing"]["what"]
    advice = found["parked", "parked"]["advice"]
    key = "escalate/parked/do-escalate"
    assert f"perdure resolve escalate parked --effect {key} --by YOU --note WHY --as done" in advice
    assert found["stuck", "stuck"]["about"] == "in"
    assert await world.db.fetchval("select attention from perdure.entity where id = 'ended'") == (
        await world.db.fetchval("select what from perdure.finding where id = 'ended'")
    )
    assert await world.db.fetchval(moves, True) == before_the_end + 1
    assert await world.db.fetchval(moves, False) == before


async def test_code_that_can_not_follow_an_open_history_is_found_before_its_entity_needs_it(world: World) -> None:
    world.counterparty.replies += [{"refused": "no"}]
    async with world.worker(app):
        await begun(world, "lookup/a")
        await world.is_in("lookup", "a", "failed")
    async with world.worker(other_app), reconciling(world, app, OLD_ENOUGH) as reconciliation:
        await reconciliation.open_entities()
    assert [(id, mended) for id, _, mended in await reconciliation.found("failing")] == [("a", False)]
    assert "Nondeterminism" in (await reconciliation.found("failing"))[0][1]


async def test_a_query_that_is_refused_because_a_workflow_task_waits_is_no_failure(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.counterparty.replies += [{"refused": "no"}]
    async with world.worker(app):
        await begun(world, "lookup/a")
        await world.is_in("lookup", "a", "failed")
    refused: list[str] = []

    def for_workflow_tasks(activate: guarded._Activate) -> guarded._Activate:
        def activated(act: WorkflowActivation) -> WorkflowActivationCompletion:
            if any(job.HasField("query_workflow") for job in act.jobs):
                refused.append(act.run_id)
                return guarded._refused(act.run_id)
            return activate(act)

        return activated

    monkeypatch.setattr(guarded, "_for_workflow_tasks", for_workflow_tasks)
    async with world.worker(app), reconciling(world, app, OLD_ENOUGH) as reconciliation:
        await reconciliation.open_entities()
    assert refused
    assert await reconciliation.found("failing") == []


async def test_the_end_of_a_run_that_left_for_a_restart_is_no_final_state_once_that_is_undone(
    world: World, reconciliation: Reconciling
) -> None:
    await begun(world, "staying/a")
    await world.db.execute("update perdure.ident set generation = 1")
    await world.handle("staying", "a").signal(MIRROR, "a test")
    await in_time(world.handle("staying", "a").result())
    await world.db.execute("update perdure.ident set generation = 0")  # as a restore does
    await reconciliation.open_entities()
    [(_, what, mended)] = await reconciliation.found("unfinished")
    assert (what, mended) == ("its workflow has ended in 'in', which is not final today", False)
    assert not (await world.client.status("staying", "a")).final


async def test_what_ends_again_and_again_is_started_again_once(world: World, reconciliation: Reconciling) -> None:
    await begun(world, "stubborn/a")
    await terminated(world, "stubborn", "a", "once")
    await reconciliation.open_entities()
    await world.until(lambda: is_open(world, "stubborn", "a"), "runs again")
    await world.until_delivered("stubborn", "a")  # a relay that has no answer yet would start it once more
    await terminated(world, "stubborn", "a", "twice")

    async def reported() -> list[str]:
        await reconciliation.open_entities()  # leaves a row that the run has written in the meantime to the next one
        return [what for _, what, mended in await reconciliation.found("ended") if not mended]

    said = await world.until(reported, "the second end is reported")
    assert not await is_open(world, "stubborn", "a")
    assert said == ["its workflow was terminated: twice (" + said[0].split("(")[1]]
    assert "started again lately" in said[0]


class Counting(Interceptor):
    """Counts what Temporal is asked."""

    def __init__(self, asked: Counter[str]) -> None:
        self._asked = asked

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        """See base class."""
        asked = self._asked

        class Outbound(OutboundInterceptor):
            def __getattribute__(self, name: str) -> Any:
                if name.endswith(("workflow", "workflows")):
                    asked[name] += 1
                return super().__getattribute__(name)

        return Outbound(next)


async def test_what_is_healthy_or_young_is_left_alone(world: World, reconciliation: Reconciling) -> None:
    await world.db.execute("delete from perdure.watch")  # the worker's watch, too, starts again what was terminated
    ids = [f"staying/{each}" for each in ODD_IDS]
    world.counterparty.replies_to["retry"] = [{"not_done": "busy", "retry_after": 600}]
    await begun(world, *ids, "counter/renewed", "lookup/retry", "stubborn/young")
    await world.handle("counter", "renewed").signal("tell", "renew")
    await world.until(lambda: world.db.fetchval("select status = 'not_done' from perdure.effect"), "waits for a retry")
    before = await all_written(world)

    healthy = await reconciliation.open_entities()
    assert not healthy.mended_now
    assert not healthy.reported_now
    assert await all_written(world) == before

    asked: Counter[str] = Counter()
    config = world.temporal_client.config()
    config["interceptors"] = [Counting(asked)]
    context = replace(
        await reconciliation.context(asked_since=datetime.now(UTC) + timedelta(minutes=1)),
        temporal_client=Client(**config),
    )
    assert await open_entities(context) == len(ids) + 3
    assert asked == {"list_workflows": 1, "describe_workflow": len(FOUND_BY_NO_LIST)}

    await world.handle("stubborn", "young").terminate(reason="just now")
    await world.db.execute("update perdure.entity set stuck_at = now() - interval '1 second'")
    before = await all_written(world)
    await reconciliation.open_entities(grace=600)
    assert await world.db.fetchval("select count(*) from perdure.finding") == 0
    assert await all_written(world) == before


async def test_a_start_that_is_on_its_way_or_was_rejected_has_lost_no_workflow(world: World) -> None:
    for each in ("on its way", "rejected"):
        await world.client.start("staying", each, Booking())
    await world.db.execute(REJECT, "rejected")
    async with reconciling(world, app, OLD_ENOUGH) as reconciliation:
        assert await open_entities(await reconciliation.context()) == 0


async def test_a_copy_leaves_its_originals_entities_alone(world: World, reconciliation: Reconciling) -> None:
    await begun(world, "staying/gone", "staying/stuck")
    await deleted(world, "staying", "gone")
    await world.db.execute("update perdure.entity set left_to = 'the original', stuck_at = now() - interval '1 hour'")
    before = await all_written(world)
    await reconciliation.open_entities()
    assert await all_written(world) == before
    assert await reconciliation.found("stuck") == []


async def test_an_entity_that_postgresql_refuses_to_record_is_reported_beside_the_others(
    world: World, reconciliation: Reconciling
) -> None:
    await begun(world, "staying/bad", "staying/worse", "staying/good")
    await world.db.execute("update perdure.entity set stuck_at = now() - interval '1 hour'")
    refuse = "(id <> 'bad' or kind <> 'stuck') and id <> 'worse'"
    await world.db.execute(f"alter table perdure.finding add constraint refused check ({refuse})")
    await reconciliation.open_entities()
    found = await world.db.fetch("select kind, id, what from perdure.finding order by id")
    assert [tuple(row)[:2] for row in found] == [("unreadable", "bad"), ("stuck", "good")]
    assert found[0]["what"] == "the reconciliation could not check it: CheckViolationError"


async def test_a_key_that_no_index_takes_beside_its_id_is_reported_for_each_effect(
    world: World, reconciliation: Reconciling
) -> None:
    random = Random(1)
    parts = [random.randbytes(2).hex()[:3] for _ in range(200)]  # random, since PostgreSQL compresses what repeats
    entity = Entity("staying", "%".join([*parts, random.randbytes(50).hex()]))
    suffixes = [random.randbytes(249).hex() + each for each in "ab"]
    await begun(world, str(entity))
    await world.db.executemany(
        "insert into perdure.effect (key, lifecycle, id, generation, effect, token, status, digest, first_at, "
        "attempt_at, deadline) values ($1, $2, $3, 0, 'do', '', 'in_doubt', '', now(), now(), now())",
        [(Key.of(entity, "do", each), entity.lifecycle, entity.id) for each in suffixes],
    )
    await world.db.execute("update perdure.entity set attention = 'an effect is in doubt: ?'")
    await reconciliation.open_entities()
    await reconciliation.open_entities()
    about = await world.db.fetch("select about from perdure.finding where kind = 'parked'")
    assert len({row["about"] for row in about}) == len(about) == 2
    assert all(str(Key.of(entity, "do")).startswith(row["about"][:450]) for row in about)
