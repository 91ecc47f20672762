"""A Temporal server in virtual time: executions, workflow tasks, activities with all their time-outs, timers, updates.

It plays a server's part as far as a lifecycle can notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from temporalio.common import TypedSearchAttributes
from temporalio.converter import DataConverter, encode_typed_search_attribute_value

from perdure.testing import server_jobs as sdk
from perdure.testing.exploring.executions import Execution

if TYPE_CHECKING:
    from perdure.testing.exploring.world import World


class NotFound(Exception):
    """No such workflow is open."""


class AlreadyStarted(Exception):
    """A workflow of that id is open, or was."""


class VirtualTemporal:
    """Keeps the executions, and gives their tasks to the workers.

    Args:
        world: the loop, the workers, and where findings are reported.
        converter: as the workers have it.

    Attributes:
        turn_at: when the next activity of each rate-limited task queue may start.
        clock_ahead: of the world's time.
        went_back: whether its clock was put back.
    """

    def __init__(self, world: World, converter: DataConverter) -> None:
        self.world = world
        self._converter = converter
        self.executions: dict[str, Execution] = {}
        self.turn_at: dict[str, float] = {}
        self.clock_ahead: timedelta = timedelta(0)
        self.went_back: bool = False
        self._started = 0

    @property
    def now(self) -> datetime:
        """The time of day, as the server has it."""
        return self.world.loop.now + self.clock_ahead

    def put_clock(self, by: timedelta) -> None:
        """Let its clock jump."""
        self.clock_ahead += by
        self.went_back |= by < timedelta(0)

    def start(
        self,
        workflow_id: str,
        lifecycle: str,
        given: Any,
        memo: Mapping[str, Any],
        indexed: TypedSearchAttributes = TypedSearchAttributes.empty,
    ) -> Execution:
        """Start a workflow; `indexed` are its search attributes.

        Raises:
            AlreadyStarted: one of that id is open.
        """
        known = self.executions.get(workflow_id)
        if known is not None and known.open:
            raise AlreadyStarted(workflow_id)
        to_payloads = self._converter.payload_converter.to_payloads
        kept = {key: to_payloads([value])[0] for key, value in memo.items()}
        self._started += 1
        shown = {each.key.name: encode_typed_search_attribute_value(each.key, each.value) for each in indexed}
        args = list(to_payloads([given]))
        execution = Execution(self.world, workflow_id, lifecycle, self._started, args, kept, shown)
        self.executions[workflow_id] = execution
        execution.wake()
        return execution

    def signal(self, workflow_id: str, name: str, *args: Any) -> None:
        """Send a signal.

        Raises:
            NotFound: no workflow of that id is open.
        """
        job = sdk.WorkflowActivationJob()
        job.signal_workflow.signal_name = name
        job.signal_workflow.input.extend(self._converter.payload_converter.to_payloads(args) if args else [])
        self._open(workflow_id).signal(job)

    def request_cancel(self, workflow_id: str) -> None:
        """Request the cancellation of a workflow, as Temporal's own command does."""
        self._open(workflow_id).request_cancel()

    def update(self, workflow_id: str, name: str, *args: Any) -> asyncio.Future[None]:
        """Send an update; the future ends when it is completed, refused, or lost with its workflow task."""
        return self._open(workflow_id).update(name, list(self._converter.payload_converter.to_payloads(args)))

    def terminate(self, workflow_id: str) -> None:
        """Terminate a workflow: it is closed, and nothing of it runs any more."""
        self._open(workflow_id).close("terminated")

    def lose_everything(self) -> None:
        """The whole server is gone with its data, and an empty one is in its place."""
        for execution in self.executions.values():
            if execution.open:
                execution.close("terminated")
        self.executions.clear()

    def wake(self) -> None:
        """A worker has come, or is reachable again: give it what waits."""
        for execution in list(self.executions.values()):
            execution.wake()

    def _open(self, workflow_id: str) -> Execution:
        execution = self.executions.get(workflow_id)
        if execution is None or not execution.open:
            raise NotFound(workflow_id)
        return execution
