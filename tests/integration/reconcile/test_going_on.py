"""A part resumes where it was, and a finding stays until a reconciliation that looks for it finds it gone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.testing import ActivityEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from perdure import App
from perdure._reconcile.hosting import ReconciliationActivities
from perdure._reconcile.runs import begin, end
from perdure._reconcile.starting import start_reconciliation
from perdure._reconcile.workflow import Reconciliation, reconciliation_id
from perdure._services.ownership.exchange import plain
from perdure._store.finding_kinds import ENDED
from perdure._wire.reconciliation import Begun, Checked, Done, Named, ReconciliationRequest
from perdure.contracts.keys import Entity
from tests.apps.failing import app
from tests.apps.kinds.counter import Counter
from tests.deadline import in_time
from tests.integration.reconcile.reconciling import OLD_ENOUGH, reconciling
from tests.running import running
from tests.world import World

pytestmark = pytest.mark.world(app, reconciliation_every=24.0)


async def test_a_part_that_is_begun_again_goes_on_behind_the_last_entity_that_it_told_of(world: World) -> None:
    told: list[object] = []
    async with reconciling(world, app, OLD_ENOUGH) as reconciliation:
        context = await reconciliation.context()
        for id in "abc":
            await world.client.start("staying", id, {})
        await world.db.execute("delete from perdure.outbox")
        hosted = ReconciliationActivities(context.pool, world.temporal_client, app, world.config)
        environment = ActivityEnvironment()
        environment.on_heartbeat = lambda *details: told.append(details[0])
        part = next(each for each in hosted.all() if each.__temporal_activity_definition.name.endswith("open-entities"))  # type: ignore[attr-defined]
        begun = Begun(run=1, younger_than=datetime.now(UTC) + timedelta(minutes=1))
        for lifecycles, seen, found in ((sorted(app.lifecycles), 8, ["c"]), (["counter"], 2, ["a", "b", "c"])):
            details = [["staying", "b", 7], lifecycles]
            environment.info = replace(ActivityEnvironment.default_info(), heartbeat_details=details)
            checked = await environment.run(part, begun)
            assert checked == Checked(seen=seen, lifecycles=sorted(app.lifecycles))
            assert told[-1] == (["staying", "c", 8] if seen == 8 else ["staying", "b", 2])
            assert [id for id, _, _ in await reconciliation.found("vanished")] == found


async def test_only_what_was_looked_for_and_not_seen_is_over(world: World) -> None:
    async with reconciling(world, app, OLD_ENOUGH) as reconciliation:
        context = await reconciliation.context()
        begun = await begin(context.pool, world.config, ReconciliationRequest(by="test"), "e")
        assert (
            await begin(context.pool, world.config, ReconciliationRequest(by="test"), "e") == begun
        )  # its answer was lost
        begun = begun.model_copy(update={"parts": ["open-entities", "missing"]})
        for id in ("seen", "over", "young"):
            await world.client.start("staying", id, {})
        await world.db.execute("update perdure.ident set version = 1 where id <> 'young'")
        now = "(extract(epoch from clock_timestamp()) * 1e6)::bigint"
        await world.db.execute(f"update perdure.ident set version = {now} where id = 'young'")
        await world.db.executemany(
            "insert into perdure.finding (kind, lifecycle, id, what, mended, run, last_seen) "
            "values ($1, $2, $3, '', $4, $5, now() - make_interval(hours => $6))",
            [
                ("stuck", "staying", "seen", False, begun.run, 0),
                ("stuck", "staying", "over", False, begun.run - 1, 1),
                ("stuck", "staying", "young", False, begun.run - 1, 1),
                ("stuck", "anothers", "x", False, begun.run - 1, 1),
                ("missing", "staying", "failed", False, begun.run - 1, 1),
                ("undelivered", "", "", False, begun.run - 1, 1),
                ("vanished", "staying", "mended", True, begun.run - 1, 29 * 24),
                ("vanished", "staying", "long ago", True, begun.run - 1, 31 * 24),
            ],
        )

        async def left() -> set[str]:
            return {row["id"] for row in await world.db.fetch("select id from perdure.finding")}

        later = await begin(context.pool, world.config, ReconciliationRequest(by="test"), "f")
        of_one = begun.model_copy(
            update={"only": Named(lifecycle="staying", id="seen", generation=0), "run": later.run}
        )
        looked = {"open-entities": Checked(seen=3, lifecycles=sorted(app.lifecycles))}
        await end(context.pool, Done(begun=of_one, checked=looked))
        assert await left() == {"over", "young", "x", "failed", "", "mended"}
        summary = await end(context.pool, Done(begun=begun, checked=looked, failed={"missing": "why"}))
        assert await left() == {"young", "x", "failed", "", "mended"}
        assert (summary.mended, summary.left) == (0, 4)


async def test_a_finding_stays_if_the_worker_of_its_part_does_not_have_its_lifecycle(world: World) -> None:
    client = plain(world.temporal_client)
    older = App(lifecycles=[Counter], effects=[])
    async with reconciling(world, app) as reconciliation:
        run = await reconciliation.context()
        for lifecycle in ("staying", "counter"):
            await run.findings.report(ENDED, Entity(lifecycle, "a"), "its workflow was terminated", "")
        beginning, executing = (
            ReconciliationActivities(run.pool, client, each, world.config).all() for each in (app, older)
        )
        worker = Worker(
            client,
            task_queue=reconciliation_id(world.scope),
            workflows=[Reconciliation],
            activities=[*beginning[:2], *executing[2:]],
            workflow_runner=UnsandboxedWorkflowRunner(),
        )
        async with running(worker):
            handle = await start_reconciliation(client, world.scope, ReconciliationRequest(by="test"))
            await in_time(handle.result())
    assert [row["lifecycle"] for row in await world.db.fetch("select lifecycle from perdure.finding")] == ["staying"]


async def test_a_hundred_reconciliations_are_kept_on_record(world: World) -> None:
    async with reconciling(world, app, OLD_ENOUGH) as reconciliation:
        context = await reconciliation.context()
        await world.db.execute(
            "insert into perdure.reconciliation (asked_by) select 'test' from generate_series(1, 150)"
        )
        begun = await begin(context.pool, world.config, ReconciliationRequest(by="test"), "e")
        await end(context.pool, Done(begun=begun))
        assert await world.db.fetchval("select count(*) from perdure.reconciliation") == 100


async def test_a_hundred_reconciliations_of_one_entity_leave_the_last_of_everything_on_record(world: World) -> None:
    """Without it, its age would be that of the database, and a further one would be due."""
    async with reconciling(world, app, OLD_ENOUGH) as reconciliation:
        context = await reconciliation.context()
        await world.db.execute(
            "insert into perdure.reconciliation (asked_by, ended_at, summary)"
            " select 'test', now(), case when n > 2 then '{\"only\": [\"staying\", \"a\"]}' else '{}' end::jsonb"
            " from generate_series(1, 150) n"
        )
        begun = await begin(context.pool, world.config, ReconciliationRequest(by="test"), "e")
        await end(context.pool, Done(begun=begun))
        kept = await world.db.fetch("select run from perdure.reconciliation order by run")
        assert [begun.run - row["run"] for row in kept[:2]] == [149, 99]
