"""Keeps the exception that workflow code raised: the SDK hands on a description of it only."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from temporalio.exceptions import FailureError
from temporalio.worker import (
    ExecuteWorkflowInput,
    HandleSignalInput,
    HandleUpdateInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)


class Bugs(Interceptor):
    """Watches run, signals and updates.

    Attributes:
        last: the last exception that fails the workflow's task, if any.
    """

    def __init__(self) -> None:
        self.last: Exception | None = None

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:
        """See base class."""
        bugs = self

        class Watching(WorkflowInboundInterceptor):
            async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
                return await bugs.seen_in(super().execute_workflow(input))

            async def handle_signal(self, input: HandleSignalInput) -> None:
                await bugs.seen_in(super().handle_signal(input))

            async def handle_update_handler(self, input: HandleUpdateInput) -> Any:
                return await bugs.seen_in(super().handle_update_handler(input))

        return Watching

    async def seen_in(self, code: Awaitable[Any]) -> Any:
        """Await `code`; keep what it raises, unless that is a failure that a workflow may end with."""
        try:
            return await code
        except FailureError:
            raise
        except Exception as error:
            self.last = error
            raise
