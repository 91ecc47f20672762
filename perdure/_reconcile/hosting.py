"""Runs reconciliations in every worker process, by a small worker on a task queue of its own, which does not depend on
the versions and queues of the lifecycles."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import temporalio.client
from temporalio import activity
from temporalio.common import MetricMeter
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from perdure._pulse import Pulse
from perdure._reconcile.context import Context
from perdure._reconcile.findings import Findings
from perdure._reconcile.parts import PARTS, Part
from perdure._reconcile.runs import begin, end, looked_up
from perdure._reconcile.workflow import BEGIN, END, HEARTBEAT, PART, Reconciliation, reconciliation_id
from perdure._services.guarded import GuardedRunner
from perdure._services.side_worker import side_worker
from perdure._store.postgres import Pool
from perdure._wire.reconciliation import Begun, Checked, Done, ReconciliationRequest, Summary
from perdure.app import App
from perdure.contracts.keys import Entity
from perdure.errors import NoSuchEntity
from perdure.settings import Settings
from perdure.telemetry import names
from perdure.telemetry.metrics import count

log = logging.getLogger("perdure.reconciliation")

_BEAT = HEARTBEAT.total_seconds() / 6
_STOPPING = 2.0
# SQLSTATE: an object of the statement is missing for good; a copy of the database that a person must declare.
_NEVER = re.compile("42|57PE1")


@asynccontextmanager
async def reconciliation_worker(
    pool: Pool,
    client: temporalio.client.Client,
    app: App,
    settings: Settings,
    meter: MetricMeter | None,
    pulse: Pulse | None = None,
) -> AsyncIterator[None]:
    """Run a worker for reconciliations while the context lasts.

    Args:
        client: a client without plugins, which would run a worker inside the worker.
    """
    hosted = ReconciliationActivities(pool, client, app, settings, meter)
    worker = Worker(
        client,
        task_queue=reconciliation_id(settings.scope),
        workflows=[Reconciliation],
        activities=hosted.all(),
        workflow_runner=GuardedRunner(UnsandboxedWorkflowRunner()),
        max_cached_workflows=0,  # no task waits for a killed worker
        max_concurrent_workflow_task_polls=1,
        max_concurrent_activity_task_polls=1,
        max_concurrent_activities=2,
        max_heartbeat_throttle_interval=timedelta(seconds=5),
        graceful_shutdown_timeout=timedelta(),
    )
    async with side_worker(worker, "perdure reconcile", patience=_STOPPING, pulse=pulse):
        yield


class ReconciliationActivities:
    """The activities of the workflow; see `workflow`."""

    def __init__(
        self,
        pool: Pool,
        client: temporalio.client.Client,
        app: App,
        settings: Settings,
        meter: MetricMeter | None = None,
    ) -> None:
        self._pool = pool
        self._client = client
        self._app = app
        self._settings = settings
        self._meter = meter

    def all(self) -> list[Callable[..., Any]]:
        """All activities, for a worker."""
        return [self.begin, self.end, *(self._of(part) for part in PARTS.values())]

    @activity.defn(name=BEGIN)
    async def begin(self, asked: ReconciliationRequest, execution: str) -> Begun:
        """Record the begin of a reconciliation. Returns the argument of its parts."""
        try:
            only = await looked_up(self._pool, asked.only)
        except NoSuchEntity as error:
            raise ApplicationError(str(error), type=NoSuchEntity.__name__, non_retryable=True) from error
        parts = [each.name for each in PARTS.values() if only is None or each.of_one]
        return (await begin(self._pool, self._settings, asked, execution)).model_copy(
            update={"parts": parts, "only": only}
        )

    @activity.defn(name=END)
    async def end(self, done: Done) -> Summary:
        """Record the end of a reconciliation. Findings that it could have seen again, and did not, are over."""
        return await end(self._pool, done)

    def _of(self, part: Part) -> Callable[..., Any]:
        @activity.defn(name=PART + part.name)
        async def do(begun: Begun) -> Checked:
            return await self._do(part, begun)

        return do

    async def _do(self, part: Part, begun: Begun) -> Checked:
        lifecycles = sorted(self._app.lifecycles)
        progress = list(activity.info().heartbeat_details)
        if progress[1:] != [lifecycles]:  # it is begun, or its last worker has passed by entities that this one knows
            progress = [None, lifecycles]
        context = self._context(begun, progress)
        beating = asyncio.create_task(_beat(progress))
        try:
            # A copy of the database, or a restored one, changes nothing (invariant 11).
            await self._pool.fetchval("select perdure.check_database()")
            seen = await part.does(context, progress[0])
        except asyncpg.PostgresError as error:
            if _NEVER.match(error.sqlstate or ""):
                raise ApplicationError(str(error), type=type(error).__name__, non_retryable=True) from error
            raise
        finally:
            beating.cancel()
            self._count(context.findings)
        return Checked(seen=seen if isinstance(seen, int) else 0, lifecycles=lifecycles)

    def _context(self, begun: Begun, progress: list[object]) -> Context:
        def beat(cursor: object) -> None:
            progress[0] = cursor
            activity.heartbeat(*progress)

        only = begun.only
        return Context(
            pool=self._pool,
            temporal_client=self._client,
            app=self._app,
            settings=self._settings,
            findings=Findings(self._pool, begun.run),
            younger_than=begun.younger_than,
            asked_since=begun.asked_since,
            only=None if only is None else Entity(only.lifecycle, only.id, only.generation or 0),
            beat=beat,
        )

    def _count(self, findings: Findings) -> None:
        if self._meter is not None:
            for kind, times in findings.mended_now.items():
                count(self._meter, names.MENDED, times, kind=kind)


async def _beat(progress: list[object]) -> None:
    """Send heartbeats with the last progress and the worker's lifecycles, also between two pages."""
    while True:
        await asyncio.sleep(_BEAT)
        activity.heartbeat(*progress)
