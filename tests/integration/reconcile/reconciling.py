"""Runs a reconciliation, or parts of one, on the world of a test, and breaks what it has to find."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from perdure import App
from perdure._reconcile.context import Context
from perdure._reconcile.entities import open_entities
from perdure._reconcile.findings import Findings
from perdure._store.connecting import Pool, open_pool
from tests.apps.contracts import Booking
from tests.world import World

OLD_ENOUGH = -60.0
"""A grace time in seconds after which everything is old, whatever the clocks say."""

Part: TypeAlias = Callable[[Context, object], Awaitable[object]]
Found: TypeAlias = "tuple[str, str | None, bool]"


@dataclass
class Reconciling:
    """Runs parts of a reconciliation on a world.

    Attributes:
        grace: how old in seconds something must be by default.
        beats: what the parts have put into their heartbeats.
    """

    world: World
    pool: Pool
    app: App
    grace: float = 0.0
    beats: list[object] = field(default_factory=list)

    async def context(self, *, grace: float | None = None, **more: Any) -> Context:
        """What a new reconciliation would be given."""
        since = "select clock_timestamp() - make_interval(secs => $1)"
        run = await self.pool.fetchval("insert into perdure.reconciliation (asked_by) values ('a test') returning run")
        given: dict[str, Any] = {"temporal_client": self.world.temporal_client, "beat": self.beats.append} | more
        return Context(
            pool=self.pool,
            app=self.app,
            settings=self.world.config,
            findings=Findings(self.pool, run),
            younger_than=await self.pool.fetchval(since, self.grace if grace is None else grace),
            **given,
        )

    async def run(self, part: Part, *, cursor: object = None, **options: Any) -> list[Found]:
        """Run it; what this one reconciliation found: kind, entity id, and whether it was mended."""
        context = await self.context(**options)
        await part(context, cursor)
        rows = await self.world.db.fetch(
            "select kind, id, mended from perdure.finding where run = $1 order by kind, id, about",
            context.findings._run,
        )
        return [(row["kind"], row["id"] or None, row["mended"]) for row in rows]

    async def open_entities(self, **options: Any) -> Findings:
        """Look at all that is open; what was found."""
        context = await self.context(**options)
        await open_entities(context)
        return context.findings

    async def found(self, kind: str) -> list[tuple[str, str, bool]]:
        """Findings of a kind: id, what is seen, whether it was mended."""
        rows = await self.world.db.fetch(
            "select id, what, mended from perdure.finding where kind = $1 order by id, about", kind
        )
        return [(row["id"], row["what"], row["mended"]) for row in rows]

    async def said(self, kind: str) -> str:
        """What was seen and what is advised, of the one finding of a kind."""
        row = await self.world.db.fetchrow("select what, advice from perdure.finding where kind = $1", kind)
        assert row is not None
        return f"{row['what']} | {row['advice']}"


@asynccontextmanager
async def reconciling(world: World, app: App, grace: float = 0.0) -> AsyncIterator[Reconciling]:
    """With connections of its own."""
    pool = await open_pool(world.dsn, 5)
    try:
        yield Reconciling(world, pool, app, grace)
    finally:
        await pool.close()


async def begun(world: World, *names: str) -> None:
    """Start `lifecycle/id`s, and wait until each has begun in Temporal; it may be over by then."""
    for name in names:
        lifecycle, _, id = name.partition("/")
        given: Any = {} if lifecycle == "counter" else Booking()
        await world.client.start(lifecycle, id, given)
    for name in names:
        lifecycle, _, id = name.partition("/")
        await world.until_delivered(lifecycle, id)


async def terminated(world: World, lifecycle: str, id: str, reason: str) -> None:
    """Terminate its workflow, and wait until lists of Temporal's know that, too."""
    handle = world.handle(lifecycle, id)
    await handle.terminate(reason=reason)
    listed = f"ExecutionStatus = 'Running' and WorkflowId = '{handle.id}'"

    async def known() -> bool:
        return (await world.temporal_client.count_workflows(listed)).count == 0

    await world.until(known, f"{handle.id} is listed as closed")


async def is_open(world: World, lifecycle: str, id: str) -> bool:
    """Whether its workflow is."""
    try:
        seen = await world.handle(lifecycle, id).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False
    return seen.status is WorkflowExecutionStatus.RUNNING


async def deleted(world: World, lifecycle: str, id: str) -> None:
    """Delete its workflow from Temporal, as retention and the loss of Temporal do."""
    handle = world.handle(lifecycle, id)
    await world.temporal_client.workflow_service.delete_workflow_execution(
        DeleteWorkflowExecutionRequest(
            namespace=world.temporal_client.namespace, workflow_execution=WorkflowExecution(workflow_id=handle.id)
        )
    )

    async def gone() -> bool:
        return not await is_open(world, lifecycle, id)

    await world.until(gone, f"{handle.id} deleted")


async def put_back(world: World, lifecycle: str, id: str, state: str) -> None:
    """Make the mirror forget the end of an entity."""
    async with world.db.transaction():
        await world.db.execute(
            "insert into perdure.entity (lifecycle, id, generation, state, input, workflow_id) "
            "select lifecycle, id, generation, $3, input, workflow_id from perdure.finished "
            "where lifecycle = $1 and id = $2",
            *(lifecycle, id, state),
        )
        await world.db.execute("delete from perdure.finished where lifecycle = $1 and id = $2", lifecycle, id)
        await world.db.execute(
            "update perdure.ident set final = null, version = version - 1000 where lifecycle = $1 and id = $2",
            *(lifecycle, id),
        )


async def all_written(world: World) -> list[Any]:
    """What a reconciliation that has nothing to do leaves as it is."""
    return [
        await world.db.fetch(f"select * from perdure.{table} order by 1, 2")
        for table in ("ident", "entity", "transition", "effect", "outbox", "finished")
    ]
