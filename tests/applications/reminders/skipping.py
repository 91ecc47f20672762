"""A clinic on the time-skipping server: its clock goes on at our speed, and skips what lies between when it is told to.

That clock runs ahead of the database's and the worker's: a plan must not begin before a patient signs up. Doses are
started by the relay, at our speed: time is skipped from one dose to the next, which is waited for. Nothing is queried:
to look into the database costs less.

Whatever cancels a timer or an activity comes well before that ends: a workflow task that cancels what has ended while
the task ran, this server refuses, and never gives the run another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from temporalio.api.enums.v1 import EventType
from temporalio.api.testservice.v1 import LockTimeSkippingRequest, UnlockTimeSkippingRequest
from temporalio.client import WorkflowExecutionStatus
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from infra.time_skipping import time_skipping_environment
from perdure import PerdurePlugin
from tests.deadline import in_time
from tests.running import running
from workers.reminders.app import app

if TYPE_CHECKING:
    from tests.applications.reminders.conftest import Clinic

DAY = timedelta(days=1)

STANDS = 15.0
"""Seconds for which the clock may stand once no run is open."""


@contextmanager
def skipping_server() -> Iterator[WorkflowEnvironment]:
    """A server for several tests. One that leaves open what a worker would have to go on with stops its clock."""
    with asyncio.Runner() as runner:
        context = time_skipping_environment(data_converter=pydantic_data_converter)
        environment = runner.run(context.__aenter__())
        try:
            yield environment
        finally:
            runner.run(context.__aexit__(None, None, None))


class Skipping:
    """A clinic and its clock."""

    def __init__(self, clinic: Clinic, environment: WorkflowEnvironment) -> None:
        self.clinic = clinic
        self.clinic.now = self.now
        self.environment = environment

    @asynccontextmanager
    async def working(self, **options: Any) -> AsyncIterator[None]:
        """A worker. Whoever has none later, and wants another one, must give `max_cached_workflows=0`: that server
        hands what the first one had in memory to nobody else."""
        config = self.clinic.world.config
        plugin = PerdurePlugin(app, config)
        async with running(Worker(self.environment.client, task_queue=config.queue, plugins=[plugin], **options)):
            yield

    async def closed(self) -> None:
        """Wait until the runs of what ended last are closed as well. One whose worker is gone before, or that is
        terminated at work, holds up the clock for good."""
        query = "select lifecycle, id from perdure.finished order by finished_at desc limit 6"
        for lifecycle, id in await self.clinic.db.fetch(query):
            await self.clinic.world.until(partial(self._is_closed, lifecycle, id), f"{lifecycle}/{id} closed")

    async def close(self) -> None:
        """End what is left. Its clock stands for good for a run that is terminated at work: then it is let go."""
        await self.closed()
        for lifecycle, id in await self.clinic.db.fetch("select lifecycle, id from perdure.entity"):
            with suppress(RPCError):  # it has not begun, or is over
                await self._handle(lifecycle, id).terminate()
        skipped = asyncio.ensure_future(self.to(await self.now() + DAY))
        while not (await asyncio.wait([skipped], timeout=STANDS))[0]:
            await self._let_go()
        await skipped

    async def now(self) -> datetime:
        """By the server's clock."""
        return await self.environment.get_current_time()

    async def new_year(self) -> int:
        """The next year that begins by its clock, everywhere."""
        return (await self.now() + 2 * DAY).year + 1

    async def tomorrow(self, at: str = "08:00") -> str:
        """When a rule starts, by the clock of Accra, which is UTC."""
        return f"{await self.now() + DAY:%Y-%m-%d}T{at}"

    async def to(self, moment: datetime) -> None:
        """Skip to a moment; past, it has come already. The server's clock stands while a run has work to do."""

        async def skip() -> None:
            while (left := moment - await self.now()) > timedelta(0):
                with suppress(RPCError):  # the call has a time-out, which a busy machine may meet
                    await self.environment.sleep(left)

        await in_time(skip())

    async def while_nobody_works(self, patient: str, until: datetime) -> None:
        """Skip time without a worker, beyond the next dose of a patient: for that the clock would stand."""
        await self._let_go()
        await self.clinic.world.until(lambda: self._is_at_work("dosage-reminders", patient), f"work for {patient}")
        await in_time(self.environment.sleep(until - await self.now()))
        await self.environment.client.test_service.lock_time_skipping(LockTimeSkippingRequest())

    async def sign_up(self, id: str, plan: Any, zone: str = "Africa/Accra", **columns: Any) -> None:
        """Insert a patient, and wait until its lifecycle has begun: the clock stands until that sleeps."""
        await self.clinic.sign_up(id, plan, zone, **columns)
        await self.heard()

    async def heard(self) -> None:
        """Wait until whatever the app said is delivered."""
        waits = "select not exists (select from perdure.outbox)"
        await self.clinic.world.until(lambda: self.clinic.db.fetchval(waits), "delivered")

    async def acted(self, lifecycle: str, id: str) -> None:
        """Wait until a lifecycle has acted upon whatever the app said."""
        await self.heard()

        async def idle() -> bool:
            return not await self._is_at_work(lifecycle, id)

        await self.clinic.world.until(idle, f"{lifecycle}/{id} has acted")

    async def begun(self, patient: str, count: int) -> None:
        """Wait until so many doses of a patient were started, and have begun: the clock stands until they wait."""
        query = "select count(*) >= $2 from perdure.ident where lifecycle = 'dose' and starts_with(id, $1)"
        database = self.clinic.db
        await self.clinic.world.until(lambda: database.fetchval(query, f"{patient}/", count), f"{count} of {patient}")
        await self.heard()

    async def over(self, patient: str, count: int) -> None:
        """Wait until so many doses of a patient were started, and are over."""
        query = (
            "select (select count(*) from perdure.finished where lifecycle = 'dose' and starts_with(id, $1)) >= $2 and "
            "not exists (select from perdure.entity where lifecycle = 'dose' and starts_with(id, $1))"
        )
        database = self.clinic.db
        await self.clinic.world.until(lambda: database.fetchval(query, f"{patient}/", count), f"{count} of {patient}")

    async def sent(self, patient: str, zone: str = "UTC") -> list[datetime]:
        """When each reminder went, by the clock of the patient."""
        rows = await self.clinic.db.fetch(
            "select version from perdure.transition where lifecycle = 'dose' and starts_with(id, $1) "
            "and state = 'sending' order by version",
            patient + "/",
        )
        return [datetime.fromtimestamp(row["version"] / 1e6, ZoneInfo(zone)) for row in rows]

    async def lengths(self, patient: str) -> list[int]:
        """Events in the history of each run of a patient's lifecycle."""
        run: str | None = (await self._handle("dosage-reminders", patient).describe()).raw_info.first_run_id
        lengths = []
        while run:
            history = await self._handle("dosage-reminders", patient, run).fetch_history()
            lengths.append(len(history.events))
            last = history.events[-1]
            run = last.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
        return lengths

    async def _is_closed(self, lifecycle: str, id: str) -> bool:
        status: WorkflowExecutionStatus = (await self._handle(lifecycle, id).describe()).status
        return status != WorkflowExecutionStatus.RUNNING

    async def _is_at_work(self, lifecycle: str, id: str) -> bool:
        last = (await self._handle(lifecycle, id).fetch_history()).events[-1]
        tasks = EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED
        return last.event_type in tasks

    async def _let_go(self) -> None:
        await self.environment.client.test_service.unlock_time_skipping(UnlockTimeSkippingRequest())

    def _handle(self, lifecycle: str, id: str, run: str | None = None) -> Any:
        name = f"{self.clinic.world.scope}:{lifecycle}/{id}"
        return self.environment.client.get_workflow_handle(name, run_id=run)
