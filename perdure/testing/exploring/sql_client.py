"""Temporal's client as a relay and the recovery have it, in front of the virtual server."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from temporalio.api.common.v1 import GrpcStatus
from temporalio.client import WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.converter import DataConverter
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from perdure.testing.exploring.executions import Execution
from perdure.testing.exploring.temporal import NotFound

if TYPE_CHECKING:
    from perdure.testing.exploring.world import World

_CALL = 0.003
"""Virtual seconds that a call takes."""
_NO_NAMESPACE = "type.googleapis.com/temporal.api.errordetails.v1.NamespaceNotFoundFailure"
_CLOSED = {
    "completed": WorkflowExecutionStatus.COMPLETED,
    "failed": WorkflowExecutionStatus.FAILED,
    "cancelled": WorkflowExecutionStatus.CANCELED,
    "terminated": WorkflowExecutionStatus.TERMINATED,
}


class Frontend:
    """How Temporal is reached by relays and people.

    Args:
        world: the loop and the server.

    Attributes:
        away_until: until when no call reaches it.
        no_namespace_until: until when the namespace is gone.
        loses_replies_until: until when calls are carried out and their replies are lost.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.away_until: float = 0.0
        self.no_namespace_until: float = 0.0
        self.loses_replies_until: float = 0.0

    async def call(self, limit: timedelta = timedelta(seconds=10)) -> None:
        """A call is sent.

        Raises:
            RPCError: it does not arrive.
        """
        loop = self.world.loop
        await asyncio.sleep(_CALL)
        if self.away_until > loop.time():
            await asyncio.sleep(min(self.world.span(1.0), limit.total_seconds()))
            raise RPCError("connection refused", RPCStatusCode.UNAVAILABLE, b"")
        if self.no_namespace_until > loop.time():
            status = GrpcStatus()
            status.details.add().type_url = _NO_NAMESPACE
            raise RPCError("Namespace default is not found.", RPCStatusCode.NOT_FOUND, status.SerializeToString())

    async def answer(self, limit: timedelta = timedelta(seconds=10)) -> None:
        """The reply to a call that was carried out.

        Raises:
            RPCError: it was lost.
        """
        if self.loses_replies_until > self.world.loop.time():
            self.world.cover("Temporal", "reply lost")
            await asyncio.sleep(limit.total_seconds())
            raise RPCError("Timeout expired", RPCStatusCode.DEADLINE_EXCEEDED, b"")


class VirtualClient:
    """The part of `temporalio.client.Client` that delivers and recovers."""

    namespace = "default"

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    async def start_workflow(
        self,
        workflow: str,
        given: Any,
        *,
        id: str,
        memo: dict[str, Any],
        id_reuse_policy: WorkflowIDReusePolicy,
        id_conflict_policy: WorkflowIDConflictPolicy,
        **more: Any,
    ) -> None:
        """See Temporal's client."""
        await self._frontend.call()
        temporal = self._frontend.world.temporal
        known = temporal.executions.get(id)
        if known is not None and known.open:
            if id_conflict_policy is WorkflowIDConflictPolicy.FAIL:
                raise WorkflowAlreadyStartedError(id, workflow)
        elif known is not None and id_reuse_policy is WorkflowIDReusePolicy.REJECT_DUPLICATE:
            raise WorkflowAlreadyStartedError(id, workflow)
        else:
            temporal.start(id, workflow, given, memo)
        await self._frontend.answer()

    def get_workflow_handle(self, workflow_id: str) -> VirtualHandle:
        """See Temporal's client."""
        return VirtualHandle(self._frontend, workflow_id)


class VirtualHandle:
    """The part of a workflow handle that delivers and recovers."""

    def __init__(self, frontend: Frontend, workflow_id: str) -> None:
        self._frontend, self._id = frontend, workflow_id

    async def signal(self, name: str, given: Any, *, rpc_timeout: timedelta) -> None:
        """See Temporal's handle."""
        await self._frontend.call(rpc_timeout)
        try:
            self._frontend.world.temporal.signal(self._id, name, given)
        except NotFound:
            raise RPCError("workflow execution already completed", RPCStatusCode.NOT_FOUND, b"") from None
        await self._frontend.answer(rpc_timeout)

    async def describe(self, *, rpc_timeout: timedelta = timedelta(seconds=10)) -> Described:
        """See Temporal's handle."""
        await self._frontend.call(rpc_timeout)
        known = self._frontend.world.temporal.executions.get(self._id)
        if known is None:
            raise RPCError("workflow not found", RPCStatusCode.NOT_FOUND, b"")
        return Described(known, self._frontend.world.converter)


class Described:
    """The part of a description that delivers and recovers."""

    def __init__(self, execution: Execution, converter: DataConverter) -> None:
        self._memo, self._converter = execution.run.memo, converter
        running = WorkflowExecutionStatus.RUNNING
        self.status: WorkflowExecutionStatus = running if execution.open else _CLOSED[execution.outcome or ""]
        self.start_time: datetime = execution.run.started

    async def memo_value(self, key: str, default: Any, type_hint: type[Any]) -> Any:
        """See Temporal's description."""
        payload = self._memo.get(key)
        if payload is None:
            return default
        return self._converter.payload_converter.from_payloads([payload], [type_hint])[0]
