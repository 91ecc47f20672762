"""What the tests of reconciliations stand on: the ground of a part, and how things come to grief."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import asyncpg
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from perdure._reconcile.context import Context
from perdure._reconcile.entities import open_entities
from perdure._reconcile.findings import Findings
from perdure._store.postgres import Database
from tests.apps.contracts import Errand
from tests.apps.frail import app
from tests.world import World

OLD_ENOUGH = timedelta(seconds=-60)
"""A grace time after which everything is old, whatever the clocks say."""


class Cleaning:
    """Makes grounds, and runs the pass over what is open."""

    def __init__(self, world: World, pool: asyncpg.Pool[asyncpg.Record]) -> None:
        self.world = world
        self._pool = pool

    async def ground(self, grace: timedelta = OLD_ENOUGH, **more: Any) -> Context:
        """That of a reconciliation of its own."""
        run = await self._pool.fetchval("insert into perdure.reconciliation (asked_by) values ('test') returning run")
        return Context(
            pool=self._pool,
            temporal_client=self.world.temporal_client,
            app=app,
            settings=self.world.config,
            findings=Findings(self._pool, run),
            younger_than=datetime.now(UTC) - grace,
            **more,
        )

    async def run(self, **more: Any) -> Findings:
        """Look at all that is open; what was found."""
        ground = await self.ground(**more)
        await open_entities(ground)
        return ground.findings

    async def found(self, kind: str) -> list[tuple[str, str, bool]]:
        """Findings of a kind: id, what is seen, whether it was mended."""
        rows = await self.world.db.fetch(
            "select id, what, mended from perdure.finding where kind = $1 order by id, about", kind
        )
        return [(row["id"], row["what"], row["mended"]) for row in rows]


@asynccontextmanager
async def cleaning(world: World) -> AsyncIterator[Cleaning]:
    """With a pool of its own."""
    database = Database(world.dsn, most=5)
    try:
        yield Cleaning(world, await database.open())
    finally:
        await database.close()


async def begun(world: World, *names: str) -> None:
    """Start `lifecycle/id`s, and wait until each has written its first state."""
    for name in names:
        lifecycle, _, id = name.partition("/")
        given: Any = {} if lifecycle == "counter" else Errand()
        await world.client.start(lifecycle, id, given)
    for name in names:
        lifecycle, _, id = name.partition("/")
        await world.until(partial(_runs, world, lifecycle, id), f"{name} runs")


async def _runs(world: World, lifecycle: str, id: str) -> bool:
    seen = await world.db.fetchval(
        "select not exists (select from perdure.outbox where lifecycle = $1 and id = $2)", lifecycle, id
    )
    return bool(seen) and await is_open(world, lifecycle, id)


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
