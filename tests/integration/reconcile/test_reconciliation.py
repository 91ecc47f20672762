"""A reconciliation as a whole: the workflow, who starts it, its Schedule, what it leaves on record, and its command."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from temporalio import activity
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType, PendingActivityState
from temporalio.api.workflowservice.v1 import PauseActivityRequest
from temporalio.client import Client, Schedule, ScheduleUpdate, ScheduleUpdateInput, WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from typer.testing import CliRunner, Result

from perdure._reconcile.asking import reconcile
from perdure._reconcile.schedule import check_schedule, make_schedule
from perdure._reconcile.starting import start_reconciliation
from perdure._reconcile.trigger import ReconciliationTrigger
from perdure._reconcile.workflow import BEGIN, Reconciliation, reconciliation_id
from perdure._services.ownership.exchange import plain
from perdure._wire.reconciliation import Begun, Named, ReconciliationRequest
from perdure.cli import cli
from perdure.errors import TemporalUnavailable
from perdure.telemetry import names
from tests.apps.failing import app
from tests.deadline import in_time
from tests.integration.reconcile.reconciling import Reconciling, begun, deleted, is_open
from tests.integration.telemetry.test_metrics import metered
from tests.world import World

pytestmark = pytest.mark.world(app, reconciliation_every=24.0)

WHOLE = "select run, asked_by, ended_at, seen, mended, reported from perdure.reconciliation order by run"


async def perdure(world: World, *arguments: str) -> Result:
    """The command."""
    environment = {**world.environment(), "COLUMNS": "200"}
    return await asyncio.to_thread(CliRunner().invoke, cli, list(arguments), env=environment)


async def test_a_reconciliation_now_mends_says_what_is_left_and_forgets_what_is_over(
    world: World, reconciliation: Reconciling
) -> None:
    await begun(world, "staying/gone", "staying/ended", "staying/well")
    await deleted(world, "staying", "gone")
    await world.handle("staying", "ended").terminate(reason="an accident")
    assert "no reconciliation has run yet" in (await perdure(world, "reconcile")).stdout

    left = await perdure(world, "reconcile", "--now", "--grace", "0s")
    assert left.exit_code == 1, left.output
    assert "3 open entities checked, 1 mended, 1 left for a person" in left.stdout
    assert "perdure retry staying ended --by YOU" in left.stdout
    await world.until(lambda: is_open(world, "staying", "gone"), "runs again")
    its_run = world.temporal_client.get_workflow_handle(reconciliation_id(world.scope))
    web_ui = await world.answer_of(its_run, "__temporal_workflow_metadata")
    assert "| ended | 0 | 1 |" in str(web_ui)

    again = await perdure(world, "retry", "staying", "ended", "--by", "ann")
    assert again.exit_code == 0, again.output
    await world.until(lambda: is_open(world, "staying", "ended"), "runs again")
    assert await world.db.fetchval("select attention from perdure.entity where id = 'ended'") is None
    of_one = await perdure(world, "reconcile", "staying", "ended", "--now", "--grace", "0s", "--json")
    assert of_one.exit_code == 0, of_one.output
    assert json.loads(of_one.stdout.splitlines()[0])["reconciliation"]["summary"]["kinds"]["ended"] == {
        "mended": 0,
        "left": 1,
    }
    assert await world.db.fetchval("select count(*) from perdure.finding where not mended") == 0
    assert (await perdure(world, "reconcile")).exit_code == 0


async def test_wrong_usage_of_the_command_is_a_line_and_changes_nothing(world: World) -> None:
    for arguments, status, said in (
        (("staying",), 2, "LIFECYCLE and ID, or neither"),
        (("--all",), 2, "--all and --grace go with --now"),
        (("--now", "--grace", "soon"), 2, "'soon' is no duration"),
        (("staying", "nobody", "--now"), 1, "staying/nobody: the database has no such entity"),
    ):
        end = await perdure(world, "reconcile", *arguments)
        assert end.exit_code == status
        assert said in end.stderr
        assert end.stderr.count("\n") == 1
    assert await world.db.fetch(WHOLE) == []


async def test_the_longest_names_and_ids_have_reconciliations_of_their_own(world: World) -> None:
    names_and_ids = [Named(lifecycle="l" * 63, id="ü" * 449 + last, generation=0) for last in "ab"]
    ids = [reconciliation_id("s" * 63, each) for each in names_and_ids]
    assert len(set(ids)) == 2
    for each in names_and_ids:
        asked = ReconciliationRequest(by="test", only=each)
        await (await start_reconciliation(world.temporal_client, "s" * 63, asked)).terminate()


async def test_without_a_worker_it_says_so_and_goes_on_when_there_is_one(world: World) -> None:
    with pytest.raises(TemporalUnavailable, match=r"no worker has taken it for 0\.5 s"):
        await reconcile(
            world.temporal_client, world.scope, ReconciliationRequest(by="test"), lambda _: None, patience=0.5
        )
    async with world.worker(app):
        summary = await world.temporal_client.get_workflow_handle(reconciliation_id(world.scope)).result()
    assert summary["failed"] == {}


@pytest.mark.parametrize("paused", [False, True])
async def test_a_part_that_has_failed_and_that_no_worker_takes_again_ends_the_wait(world: World, paused: bool) -> None:
    @activity.defn(name=BEGIN)
    async def begin(asked: ReconciliationRequest, execution: str) -> Begun:
        raise ApplicationError("an outage", next_retry_delay=timedelta(seconds=0.1))

    asked, queue = ReconciliationRequest(by="test"), reconciliation_id(world.scope)
    handle = await start_reconciliation(world.temporal_client, world.scope, asked)
    worker = Worker(
        plain(world.temporal_client),
        task_queue=queue,
        workflows=[Reconciliation],
        activities=[begin],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )

    async def has_failed() -> bool:
        parts = (await handle.describe()).raw_description.pending_activities
        return any(each.last_failure.message for each in parts)

    async def is_paused() -> bool:
        parts = (await handle.describe()).raw_description.pending_activities
        return [each.state for each in parts] == [PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED]

    async with worker:
        await world.until(has_failed, "it has failed")
        if paused:
            await world.temporal_client.workflow_service.pause_activity(
                PauseActivityRequest(
                    namespace=world.temporal_client.namespace,
                    execution=WorkflowExecution(workflow_id=queue),
                    type=BEGIN,
                )
            )
            await world.until(is_paused, "no attempt is under way")
    why = "begin is paused by hand: temporal activity unpause" if paused else "no worker has taken it for"
    with pytest.raises(TemporalUnavailable, match=why):
        await in_time(reconcile(world.temporal_client, world.scope, asked, lambda _: None, patience=1.0))
    await handle.terminate()


async def test_a_part_that_fails_for_good_keeps_no_other_from_its_work_and_all_of_it_is_measured(world: World) -> None:
    async with metered(world, app) as here:
        await begun(world, "staying/gone", "staying/ended")
        await deleted(world, "staying", "gone")
        await world.handle("staying", "ended").terminate()
        await world.db.execute("alter function perdure.make_months rename to made_months")
        end = await perdure(world, "reconcile", "--now", "--grace", "0s")
        assert end.exit_code == 1
        assert "perdure: the part months failed: UndefinedFunctionError" in end.stderr
        assert "1 mended, 1 left" in end.stdout
        await world.db.execute("update perdure.reconciliation set began_at = began_at - interval '1 hour'")
        await here.gauges.once()
        assert await here.value(names.MENDED, kind="vanished") == 1
        assert [await here.value(names.FINDINGS, kind=kind) for kind in ("ended", "vanished")] == [1, 0]
        assert 3600 < (await here.value(names.RECONCILIATION_AGE_SECONDS) or 0) < 3700


@pytest.mark.usefixtures("reconciliation")
async def test_workers_of_another_database_are_not_asked_for_one(world: World) -> None:
    await world.db.execute("update perdure.database set mark = 'm', scope = 'clinic', namespace = 'default'")
    end = await perdure(world, "reconcile", "--now", "--by", "ann")
    assert (end.exit_code, end.stdout) == (1, "")
    why = f"this database works with PERDURE_SCOPE='clinic', and here is PERDURE_SCOPE={world.scope!r}"
    assert why in str(end.exception)
    with pytest.raises(RPCError, match="not found"):
        await world.temporal_client.get_workflow_handle(reconciliation_id(world.scope)).describe()


async def test_a_database_that_may_be_a_copy_is_not_cleaned_up(world: World, reconciliation: Reconciling) -> None:
    await begun(world, "staying/gone")
    await deleted(world, "staying", "gone")
    await world.db.execute("update perdure.database set stopped = 'it is a copy'")
    refused = await perdure(world, "reconcile", "--now", "--grace", "0s")
    assert "nothing is sent from this database: it is a copy" in str(refused.exception)
    with suppress(WorkflowFailureError):  # where its first part fails
        asked = ReconciliationRequest(by="ann", grace=0)
        made = await reconcile(world.temporal_client, world.scope, asked, lambda _: None)
        assert "open-entities" in made.failed
    assert await world.db.fetchval("select count(*) from perdure.transition") == 1


async def test_a_reconciliation_whose_worker_is_killed_goes_on_in_another_one(world: World) -> None:
    flag = world.folder / "still"
    os.mkfifo(flag.with_suffix(".pipe"))
    environment = {"STANDS_STILL": str(flag)}
    worker = await world.spawn("tests.apps.hasty:app", **environment)
    for id in "abc":
        await world.db.execute("select perdure.start('sticky', $1, '{}')", id)
    for id in "abc":
        await world.until(partial(is_open, world, "sticky", id), f"{id} runs")
    await world.until(lambda: world.db.fetchval("select count(*) = 0 from perdure.outbox"), "delivered")
    await deleted(world, "sticky", "a")
    flag.with_suffix(".pipe").rename(flag)
    handle = asyncio.create_task(
        reconcile(world.temporal_client, world.scope, ReconciliationRequest(by="test", grace=0), lambda _: None)
    )
    await world.until(lambda: flag.with_suffix(".reached").exists(), "in the middle")
    await worker.kill()
    flag.unlink()
    await world.spawn("tests.apps.hasty:app", **environment)
    summary = await in_time(handle)
    # The first worker may have mended it, and have been killed before it recorded that as a finding.
    mends = "select count(*) from perdure.transition where id = 'a' and why like 'started again from its record: %'"
    assert await world.db.fetchval(mends) == 1
    findings = await world.db.fetch("select kind, id, mended from perdure.finding")
    assert {tuple(each) for each in findings} <= {("vanished", "a", True)}
    assert (summary.seen, summary.failed) == (3, {})
    await world.until(lambda: is_open(world, "sticky", "a"), "runs again")


async def test_a_fleet_makes_one_reconciliation_after_its_start_and_no_more_until_it_is_time(
    world: World, reconciliation: Reconciling
) -> None:
    context = await reconciliation.context()
    await world.db.execute("delete from perdure.reconciliation")
    fleet = [ReconciliationTrigger(context.pool, world.temporal_client, world.config) for _ in range(3)]
    for each in fleet:
        each._looks_at = 0.0
    await asyncio.gather(*(each.once() for each in fleet))
    # As long as its workflow is not closed, which comes after its record has ended, another one joins it.
    await in_time(world.temporal_client.get_workflow_handle(reconciliation_id(world.scope)).result())
    assert [row["asked_by"] for row in await world.db.fetch(WHOLE)] == ["worker"]
    assert (
        await world.temporal_client.get_schedule_handle(reconciliation_id(world.scope)).describe()
    ).schedule.spec.intervals

    for ago, expected in ((timedelta(hours=24), 1), (timedelta(hours=27), 2)):
        await world.db.execute("update perdure.reconciliation set began_at = clock_timestamp() - $1::interval", ago)
        for each in fleet:
            each._looks_at = 0.0
            await each.once()
        await world.until(
            lambda: world.db.fetchval("select bool_and(ended_at is not null) from perdure.reconciliation"), "e"
        )
        await world.until(
            lambda n=expected: world.db.fetchval("select count(*) = $1 from perdure.reconciliation", n),  # type: ignore[misc]
            f"{expected} after {ago}",
        )


async def test_times_of_before_the_clock_went_back_come_to_the_present(
    world: World, reconciliation: Reconciling
) -> None:
    context = await reconciliation.context()
    await world.db.execute("""
        update perdure.reconciliation set began_at = clock_timestamp() + interval '3 h',
            ended_at = clock_timestamp() + interval '3 h';
        insert into perdure.finding (kind, what, run, first_seen, last_seen)
        select 'missing', 'x', run, ended_at, ended_at from perdure.reconciliation
    """)
    trigger = ReconciliationTrigger(context.pool, world.temporal_client, world.config)
    trigger._looks_at = 0.0
    await trigger.once()
    assert await world.db.fetchval("select every(greatest(began_at, ended_at) <= now()) from perdure.reconciliation")
    [times] = await world.db.fetch("""
        select f.last_seen <= now() as present, f.last_seen >= r.began_at as is_of_it
        from perdure.finding f join perdure.reconciliation r using (run)
    """)
    assert tuple(times) == (True, True), "and the finding is not over"


async def test_a_lifecycle_that_saw_something_odd_is_looked_at_alone_and_once(world: World) -> None:
    ended = "select array_agg(summary->'only'->>1 order by run) from perdure.reconciliation where ended_at is not null"
    async with world.worker(app, reconciliation_grace=0.0, max_cached_workflows=0):
        for made in (["a"], ["a", "b"]):
            await begun(world, f"odd/{made[-1]}", f"staying/{made[-1]}")
            await world.until(lambda: world.db.fetchval(ended), "the reconciliation")
            await world.until(partial(_is, world, ended, made), f"reconciliations of {made} alone")
            await world.handle("odd", "a").signal("perdure-wake", "x")  # it replays its history: there is no cache
            await world.until(partial(_heard, world, len(made)), "heard")
    said = await world.db.fetch("select asked_by, seen from perdure.reconciliation")
    assert [tuple(row) for row in said] == [("odd: it looks odd here", 1)] * 2


async def _is(world: World, query: str, expected: object) -> bool:
    return bool(await world.db.fetchval(query) == expected)


async def _heard(world: World, times: int) -> bool:
    types = [each.event_type async for each in world.handle("odd", "a").fetch_history_events()]
    return types.count(EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED) > times


async def test_its_schedule_is_put_back_and_one_that_is_paused_stays_so(
    world: World, reconciliation: Reconciling
) -> None:
    context = await reconciliation.context()
    schedule = world.temporal_client.get_schedule_handle(reconciliation_id(world.scope))
    await make_schedule(world.temporal_client, world.config)
    await check_schedule(context)
    assert await reconciliation.found("schedule") == []  # it is as it was made

    def change(of: ScheduleUpdateInput) -> ScheduleUpdate:
        changed: Schedule = of.description.schedule
        changed.spec.intervals[0].every = timedelta(days=300)
        changed.state.paused, changed.state.note = True, "ann: not at night"
        return ScheduleUpdate(changed)

    await schedule.update(change)
    await check_schedule(context)
    found = await schedule.describe()
    assert found.schedule.spec.intervals[0].every == timedelta(days=1)
    assert found.schedule.state.paused
    paused, changed = sorted((mended, what) for _, what, mended in await reconciliation.found("schedule"))
    assert "is paused: ann: not at night" in paused[1]
    assert "was changed (intervals)" in changed[1]

    await world.db.execute("delete from perdure.finding")
    await world.db.execute("update perdure.reconciliation set ended_at = clock_timestamp(), summary = '{}'")
    await schedule.delete()
    await check_schedule(context)
    assert ["was missing" in what for _, what, _ in await reconciliation.found("schedule")] == [True]
    assert await _exists(world.temporal_client, world.scope)
    await check_schedule(replace(context, settings=world.config.model_copy(update={"reconciliation_every": 0.0})))
    assert not await _exists(world.temporal_client, world.scope)


async def _exists(temporal_client: Client, scope: str) -> bool:
    try:
        await temporal_client.get_schedule_handle(reconciliation_id(scope)).describe()
    except RPCError:
        return False
    return True
