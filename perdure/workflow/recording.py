"""What a run puts on record: versions, orders, writes, and the state that it is in from then on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from temporalio import workflow
from temporalio.common import RetryPolicy, SearchAttributeKey
from temporalio.exceptions import ActivityError, ApplicationError

from perdure.errors import DeclarationError
from perdure.shown import markdown
from perdure.store.writes import Answer, Fence, Move, Write, storable
from perdure.telemetry import metrics, names
from perdure.workflow.calling import SILENCE
from perdure.workflow.details import details
from perdure.workflow.fitting import check_size
from perdure.workflow.leaving import Overtaken, for_ever
from perdure.workflow.memory import Memory

if TYPE_CHECKING:
    from perdure.workflow.lifecycle import Lifecycle

WRITE = "perdure.write"
"""Activity type of the bookkeeping: one `Write`, one `Answer`."""

_WRITE_ONCE = RetryPolicy(maximum_attempts=1)
_WRITE_ON = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=20))


class Recording(Memory):
    """The layer of a `Conductor` that writes."""

    def __init__(self, lifecycle: Lifecycle[Any, Any]) -> None:
        super().__init__(lifecycle)
        self.last_move = 0
        """Version of the newest write that shows a state."""
        self._moved = False
        """This run has done more than to catch up with the one before it."""

    async def save(self) -> None:
        """Commit the snapshot; see `Lifecycle.save`."""
        await self.write(self.order(move=self.move_to(self.state, "saved")))

    def check_move(self, origin: str, state: str) -> None:
        """Raise `DeclarationError` where `origin` may not lead to `state`."""
        if not self.states.allows(origin, state):
            follow = ", ".join(self.states.followers(origin)) or "none, it is final"
            raise DeclarationError(f"{self.entity}: {origin!r} may not lead to {state!r}; declared are: {follow}")

    def show(self, state: str) -> None:
        """Be in `state` from now on, as far as queries and the Web UI see."""
        if state != self.state:
            self.state, self.since = state, workflow.now()
            self._publish()
        self.describe()

    def acted(self) -> None:
        """It is further than that, and has done what a retry was asked for."""
        self.arrived()
        self.retry, self._moved = None, True
        self._count_state()

    def next_version(self) -> int:
        """Microseconds, strictly growing through resets, renewals and recovery."""
        self._version = max(int(workflow.now().timestamp() * 1_000_000), self._version + 1)
        return self._version

    def learn(self, version: int) -> None:
        """Never fall behind what the mirror knows."""
        self.on_record = max(self.on_record, version)
        self._version = max(self._version, version)

    def stay_ahead(self, version: int) -> None:
        """Let all versions to come be newer than that of an effect's record, which lets no older order begin."""
        self._version = max(self._version, version)

    def order(self, *, move: Move | None = None, fence: Fence | None = None, given: Any = None) -> Write:
        """A write of this entity with a version of its own."""
        return Write(
            lifecycle=self.entity.lifecycle,
            id=self.entity.id,
            round=self.entity.round,
            version=self.next_version(),
            workflow_id=workflow.info().workflow_id,
            move=move,
            fence=fence,
            input=given,
        )

    def move_to(self, state: str, why: str | None = None, by: str | None = None) -> Move:
        """The mirror part of a write that shows `state`."""
        declared = self.states.on_record(state)
        attention = self.attention or (why if declared.attention else None) or self.wants(state)
        snapshot, heard = self.kept()
        return Move(
            state=state,
            final=declared.final,
            attention=None if declared.final else storable(attention),
            why=storable(why),
            by=storable(by),
            snapshot=snapshot,
            heard=heard,
            memory=None if declared.final else self.remembered(),
            within=declared.within.total_seconds() if declared.within else None,
            told=self.dealt_with if declared.final else None,
        )

    async def write(self, order: Write) -> Answer:
        """Commit `order`, however long the database is away.

        Raises:
            Overtaken: the entity is final, or was restarted, and the order had something to show.
            TooLarge: Temporal would not take it.
        """
        check_size(self.entity, "what it writes", order)
        if order.move is not None:
            self.last_move = order.version
        async with self.under_way():
            answer = await _write(order)
        self.learn(answer.version)
        if order.move is not None and answer.gate.over:
            raise Overtaken(answer.state, answer.round)
        return answer

    @asynccontextmanager
    async def under_way(self) -> AsyncIterator[None]:
        """Around each call and write: meanwhile the run neither ends nor goes on in a new one."""
        if self.gone:
            await for_ever()
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1

    def describe(self) -> None:
        """Show the Web UI where it is and what a person can do."""
        workflow.set_current_details(details(self.status()))

    def _count_state(self) -> None:
        """It is on record that this state was entered."""
        if self.state != self._counted:
            self._counted = self.state
            metrics.count(
                workflow.metric_meter(), names.STATES_ENTERED, lifecycle=self.entity.lifecycle, state=self.state
            )

    def _publish(self) -> None:
        if self.lifecycle.search_attribute is not None:
            key = SearchAttributeKey.for_keyword(self.lifecycle.search_attribute)
            workflow.upsert_search_attributes([key.value_set(self.state)])


async def _write(order: Write) -> Answer:
    try:
        answer: Answer = await workflow.execute_local_activity(
            WRITE,
            order,
            result_type=Answer,
            start_to_close_timeout=timedelta(seconds=5),
            retry_policy=_WRITE_ONCE,
            summary=markdown(order),
        )
    except (ActivityError, ApplicationError):
        # Not in the workflow task: while PostgreSQL is away this waits without growing the history.
        answer = await workflow.execute_activity(
            WRITE,
            order,
            result_type=Answer,
            start_to_close_timeout=timedelta(seconds=30),
            heartbeat_timeout=SILENCE,
            retry_policy=_WRITE_ON,
            summary=markdown(f"{order}, until PostgreSQL is back"),
        )
    return answer
