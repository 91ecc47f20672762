"""Shows in the mirror that the code of a lifecycle fails. The run itself cannot: Temporal repeats its task until code
is deployed that follows the history, and a write in the meantime would be part of that history."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from temporalio.worker import Interceptor, WorkflowInboundInterceptor, WorkflowInterceptorClassInput

from perdure._services.service import Service
from perdure._store.postgres import Pool
from perdure._store.sql import queries
from perdure._workflow.conductor import ASK_FOR_RECONCILIATION, REPORT_FAILURE
from perdure.contracts.keys import Entity

query = queries(__name__)


class CodeFailures(Service):
    """Writes reported failures as the reason why an entity needs a person. The next write of the run clears the reason.

    Args:
        pool: the app's database.
    """

    def __init__(self, pool: Pool) -> None:
        super().__init__("code failures", every=5.0)
        self._pool = pool
        self._reported: deque[tuple[Entity, str]] = deque(maxlen=1000)
        self._loop_of_worker: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Start, and clear the failures of earlier code. A run that still fails reports it again."""
        self._loop_of_worker = asyncio.get_running_loop()
        async with self._pool.acquire(timeout=5) as connection:
            await connection.execute(query("code_failures_over"))
        await super().start()

    async def once(self) -> bool:
        """Write the reported failures."""
        while self._reported:
            entity, why = self._reported[0]
            async with self._pool.acquire(timeout=5) as connection:
                await connection.execute(query("code_failure"), entity.lifecycle, entity.id, entity.generation, why)
            self._reported.popleft()
        return False

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
