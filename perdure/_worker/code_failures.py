"""Shows in the mirror that the code of a lifecycle fails. The run itself cannot: Temporal repeats its task until code
is deployed that follows the history, and a write in the meantime would be part of that history."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from temporalio.worker import Interceptor, WorkflowInboundInterceptor, WorkflowInterceptorClassInput

from perdure._services.service import Service
from perdure._store.postgres import Pool
from perdure._store.schema import Connection
from perdure._store.sql import queries
from perdure._workflow.conductor import ASK_FOR_RECONCILIATION, REPORT_FAILURE
from perdure.contracts.keys import Entity

query = queries(__name__)


class CodeFailures(Service):
    """Writes reported failures as the reason why an entity needs a person. The next write of the run clears the reason.

    It also clears the failures of earlier code. That may take long, so no start of a worker waits for it.

    Args:
        pool: the app's database.
    """

    def __init__(self, pool: Pool) -> None:
        super().__init__("code failures", every=5.0)
        self._pool = pool
        self._reported: deque[tuple[Entity, str]] = deque(maxlen=1000)
        self._loop_of_worker: asyncio.AbstractEventLoop | None = None
        self._began: int | None = None  # in transactions, since no column has the time of a reason
        self._cleared = False

    async def start(self) -> None:
        """Start; the first round clears the failures of earlier code."""
        self._loop_of_worker = asyncio.get_running_loop()
        await super().start()

    async def once(self) -> bool:
        """Write the reported failures, and clear some of earlier code."""
        if self._cleared and not self._reported:
            return False
        async with self._pool.acquire(timeout=5) as connection:
            if self._began is None:
                self._began = await connection.fetchval(query("code_failures_before"))
            while self._reported:
                await self._write(connection, self._reported.popleft())
            return not self._cleared and await self._clear(connection)

    async def _write(self, connection: Connection, reported: tuple[Entity, str]) -> None:
        entity, why = reported
        try:
            await connection.execute(query("code_failure"), entity.lifecycle, entity.id, entity.generation, why)
        except BaseException:
            self._reported.appendleft(reported)
            raise

    async def _clear(self, connection: Connection) -> bool:
        """Clear some failures of earlier code. Returns True if more may be left that no other session holds."""
        row = await connection.fetchrow(query("code_failures_over"), self._began)
        assert row is not None
        self._cleared = not row["found"]
        return bool(row["cleared"])

    def report(self, entity: Entity, why: str) -> None:
        """Report that the code of an entity's run failed. Workflows call this from their thread."""
        self._reported.append((entity, why))
        if self._loop_of_worker is not None and not self._loop_of_worker.is_closed():
            self._loop_of_worker.call_soon_threadsafe(self.nudge)


class Listener(Interceptor):
    """Lets workflows report failures, and request reconciliations.

    Args:
        report: receives the entity whose code fails, and the reason.
        ask: receives the entity to reconcile, and the reason.
    """

    def __init__(self, report: Callable[[Entity, str], None], ask: Callable[[Entity, str], None]) -> None:
        self._report = report
        self._ask = ask

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        """See base class."""
        input.unsafe_extern_functions[REPORT_FAILURE] = self._report
        input.unsafe_extern_functions[ASK_FOR_RECONCILIATION] = self._ask
        return None
