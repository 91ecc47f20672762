"""UNRECORDED, OUTLIVED: open workflows that the database knows nothing of, or whose entity is finished."""

from __future__ import annotations

import json
from functools import partial

import pytest
from temporalio.client import WorkflowExecutionStatus

from perdure import Entity
from perdure._reconcile import unrecorded as module
from perdure._reconcile.unrecorded import unrecorded
from perdure._wire.carried import CARRIED
from perdure._wire.writes import Move, Write
from tests.apps.bodies import app
from tests.integration.reconcile.reconciling import Reconciling
from tests.world import World

FORGET = "delete from perdure.ident where id = $1"
LOSE = "delete from perdure.entity where id = $1"
FINISH = "update perdure.ident set final = 'closed' where id = $1"
FINISHED = """
    insert into perdure.finished (lifecycle, id, generation, state, created_at)
    values ('counter', $1, 0, 'closed', now())
"""


async def test_each_open_workflow_gets_its_row_back_or_ends(
    world: World, parts: Reconciling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 2)
    async with world.worker(app):
        await _counting(world, "well", "lost", "lost%'too", "over", "of the last generation")
        await _change(world, FORGET, "lost", "lost%'too")
        await _change(world, LOSE, "lost", "lost%'too", "over")
        await _change(world, FINISH, "over")
        await _change(world, "update perdure.ident set generation = 1 where id = $1", "of the last generation")
        before = await world.states("counter", "well")
        assert await parts.run(unrecorded, grace=600) == []
        assert await parts.run(unrecorded) == [
            ("outlived", "of the last generation", True),
            ("outlived", "over", True),
            ("unrecorded", "lost", True),
            ("unrecorded", "lost%'too", True),
        ]
        for each in ("lost", "lost%'too"):
            status = await world.client.status("counter", each)
            assert (status.state, status.final) == ("counting", False)
            given = "select input from perdure.entity where id = $1"
            assert json.loads(await world.db.fetchval(given, each)) == {"total": 0, "runs": 0}
        for each in ("over", "of the last generation"):
            assert await _is(world, each, WorkflowExecutionStatus.COMPLETED)
        assert await world.states("counter", "well") == before
        await world.until(lambda: _listed(world, 3), "visibility knows which ones have ended")
        assert await parts.run(unrecorded) == []


async def test_a_row_that_a_run_made_anew_after_a_restore_gets_its_input_back(world: World, parts: Reconciling) -> None:
    async with world.worker(app):
        await _counting(world, "written", "fenced")
        born = await world.db.fetchval("select created_at from perdure.entity where id = 'written'")
        for table in ("ident", "entity", "transition"):
            await world.db.execute(f"delete from perdure.{table}")
        await world.db.execute("update perdure.database set epoch = extract(epoch from clock_timestamp()) * 1e6")
        await world.db.execute("insert into perdure.ident (lifecycle, id) values ('counter', 'fenced')")
        moved = Write(
            lifecycle="counter",
            id="written",
            generation=0,
            version=1,
            workflow_id=f"{world.scope}:counter/written",
            move=Move(state="counting"),
            born=born,
        )
        await world.db.execute("select perdure.apply_write($1::jsonb)", moved.model_dump_json(exclude_none=True))
        assert await parts.run(unrecorded) == [("unrecorded", "fenced", True), ("unrecorded", "written", True)]
        for each in ("written", "fenced"):
            given = await world.db.fetchval("select input from perdure.entity where id = $1", each)
            assert json.loads(given) == {"total": 0, "runs": 0}
        await world.db.execute("delete from perdure.finding")
        await world.db.execute("update perdure.entity set input = null")  # as that of a lifecycle whose input is null
        assert await parts.run(unrecorded) == []


async def test_a_run_that_is_about_to_end_is_left_alone(world: World, parts: Reconciling) -> None:
    async with world.worker(app):
        await _counting(world, "ending")
        for change in (LOSE, FINISH, FINISHED):
            await _change(world, change, "ending")
        begun = await world.handle("counter", "ending").describe()
        context = await parts.context()
        await world.db.execute("update perdure.finished set finished_at = $1", context.younger_than)
        await unrecorded(context, None)
        assert await world.db.fetchval("select count(*) from perdure.finding") == 0
        assert begun.start_time < context.younger_than  # so it was looked at
        assert await _is(world, "ending", WorkflowExecutionStatus.RUNNING)


async def test_a_run_that_does_not_answer_is_reported_and_those_of_others_are_not(
    world: World, parts: Reconciling
) -> None:
    for workflow_id in (f"{world.scope}:counter/a", "counter/b", f"{world.scope}x/counter/c"):
        await world.temporal_client.start_workflow("counter", {}, id=workflow_id, task_queue=f"nobody-{world.scope}")
    await world.until(lambda: _listed(world, 1), "visibility knows it")
    part = partial(unrecorded, patience=0.3)
    assert await parts.run(part) == [("unrecorded", "a", False)]
    said = await parts.said("unrecorded")
    assert "it has no row, and the run does not answer: no worker takes its task" in said
    assert said.endswith(f"temporal workflow show --workflow-id {world.scope}:counter/a")
    assert await parts.run(part, only=Entity("counter", "b")) == []
    assert await parts.run(part, only=Entity("counter", "a")) == [("unrecorded", "a", False)]
    assert await parts.run(part, cursor=["dedupe", None]) == []  # it is past that lifecycle
    await world.handle("counter", "a").terminate()


async def test_a_run_whose_memo_can_not_be_read_or_whose_restart_was_undone_keeps_no_other_from_being_found(
    world: World, parts: Reconciling
) -> None:
    for each, generation in (("a", "none"), ("b", "none"), ("undone", 1)):
        await world.temporal_client.start_workflow(
            "counter",
            {},
            id=f"{world.scope}:counter/{each}",
            task_queue=f"nobody-{world.scope}",
            memo={CARRIED: {"generation": generation}},
        )
    await world.until(lambda: _listed(world, 3), "visibility knows them")
    known = "insert into perdure.ident (lifecycle, id, generation, final) values ('counter', $1, $2, $3)"
    await world.db.execute(known, "a", 1, None)
    await world.db.execute(known, "undone", 0, "closed")  # a restore has undone its restart
    assert await parts.run(partial(unrecorded, patience=0.3)) == [("unrecorded", "b", False)]
    for each in ("a", "b", "undone"):
        await world.handle("counter", each).terminate()


async def _counting(world: World, *ids: str) -> None:
    """Counters that count, and are known to visibility."""
    for each in ids:
        await world.client.start("counter", each, {"total": 0})
    for each in ids:
        await world.asked("counter", each)
    await world.until(lambda: _listed(world, len(ids)), "visibility knows them")


async def _listed(world: World, count: int) -> bool:
    query = f"ExecutionStatus = 'Running' AND WorkflowId STARTS_WITH '{world.scope}:'"
    return (await world.temporal_client.count_workflows(query)).count == count


async def _change(world: World, sql: str, *ids: str) -> None:
    for each in ids:
        await world.db.execute(sql, each)


async def _is(world: World, entity_id: str, status: WorkflowExecutionStatus) -> bool:
    return (await world.handle("counter", entity_id).describe()).status is status
