"""The workflow side of every lifecycle: versions, writes, waits, cancellation, renewal, the end.

One `Conductor` belongs to each run. It holds what survives continue-as-new, and is the only place that
continues as new or ends: an update that was acknowledged is never lost on the way.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from temporalio import workflow
from temporalio.common import RetryPolicy, SearchAttributeKey
from temporalio.exceptions import ActivityError, ApplicationError

from perdure import faults
from perdure.contracts.effects import problem
from perdure.contracts.keys import Entity
from perdure.errors import DeclarationError, InvalidEntity, InvalidInput
from perdure.store.writes import Answer, Column, Fence, Gate, Move, Write, storable
from perdure.workflow.carried import CARRIED, Carried
from perdure.workflow.details import details
from perdure.workflow.leaving import Cancelled, Overtaken, Renewal
from perdure.workflow.requests import Request
from perdure.workflow.status import LifecycleStatus

if TYPE_CHECKING:
    from perdure.workflow.lifecycle import Lifecycle
    from perdure.workflow.performing import Performance

WRITE = "perdure.write"
"""Activity type of the bookkeeping: one `Write`, one `Answer`."""
MESSAGES = 50
"""History events of messages that a run must have seen in its first wait before it may go on in a new one."""

_WRITE_ONCE = RetryPolicy(maximum_attempts=1)
_WRITE_ON = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=20))


class Conductor:
    """Conducts one run of a lifecycle; see the module."""

    def __init__(self, lifecycle: Lifecycle[Any, Any]) -> None:
        info = workflow.info()
        carried = workflow.memo_value(CARRIED, None, type_hint=Carried) or Carried(born=False)
        self.lifecycle = lifecycle
        self.entity = _entity(info.workflow_id, info.workflow_type, carried.round)
        self.states = lifecycle.declared
        self.state: str = carried.state or str(self.states.initial)
        self.since = carried.since or workflow.now()
        self.attention = carried.attention
        self.recalled = carried.snapshot
        self.again = dict(carried.again)
        self.ended = dict(carried.ended)
        self.unsettled = dict(carried.unsettled)
        self.catching_up = carried.state is not None
        """Run starts from its top after a renewal: until it is where it was, what it did then is not redone."""
        self.performances: dict[str, Performance[Any, Any]] = {}
        self.refused: set[str] = set()
        self.in_flight = 0
        self.cancel = carried.cancel
        self.leaving = False
        """It goes on in a new run in a moment; what is asked now is to be asked again there."""
        self.overtaken = False
        """The database says that it is over, here at least; nothing that waits in this run goes on."""
        self.waiting_for_retry = False
        self.retry = carried.retry
        self._version = carried.version
        self._born = carried.born
        self._renewing = False
        self._moved = False
        self._rested_at: int | None = None
        """Length of the history when this run began its first wait."""

    @property
    def final(self) -> bool:
        """Whether the lifecycle is over."""
        return self.states[self.state].final

    async def conduct(self, run: Callable[[Any], Awaitable[None]], given: Any) -> None:
        """Run the author's `run` and bring it to an end that loses nothing."""
        if await self._attend(asyncio.ensure_future(self._lead(run, given))):
            workflow.continue_as_new(given, memo=self._memo())

    async def _lead(self, run: Callable[[Any], Awaitable[None]], given: Any) -> bool:
        """Come to an end; True if that is a new run."""
        renewing = False
        try:
            read = self._read(given)
            await self._be_born(read)
            await run(read)
            self._check_end()
        except Renewal:
            renewing = True
        except Cancelled:
            await self._end_cancelled()
        except Overtaken as standing:
            workflow.logger.info("ended as %s: the database says so", standing.state)
            self.state, self.overtaken = standing.state or self.state, True
        await self._drain()
        return renewing

    def next_version(self) -> int:
        """Microseconds, strictly growing through resets, renewals and recovery."""
        self._version = max(int(workflow.now().timestamp() * 1_000_000), self._version + 1)
        return self._version

    def order(self, *, move: Move | None = None, fence: Fence | None = None, given: Any = None) -> Write:
        """A write of this entity with a version of its own."""
        mirror = self.lifecycle.mirror
        return Write(
            lifecycle=self.entity.lifecycle,
            id=self.entity.id,
            round=self.entity.round,
            version=self.next_version(),
            workflow_id=workflow.info().workflow_id,
            move=move,
            fence=fence,
            column=Column(table=mirror.table, column=mirror.column, key=mirror.key) if mirror and move else None,
            input=given,
        )

    def move_to(self, state: str, why: str | None = None, by: str | None = None) -> Move:
        """The mirror part of a write that shows `state`."""
        declared = self.states[state]
        attention = self.attention or (why if declared.attention else None) or self.wants(state)
        return Move(
            state=state,
            final=declared.final,
            attention=None if declared.final else attention,
            why=storable(why),
            by=storable(by),
            snapshot=self._snapshot(),
            within=declared.within.total_seconds() if declared.within else None,
        )

    def wants(self, state: str) -> str | None:
        """What a person is wanted for, if one is."""
        return self.attention or (f"{state} wants a person" if self.states[state].attention else None)

    async def write(self, order: Write) -> Answer:
        """Commit `order`, however long the database is away.

        Raises:
            Overtaken: the entity is final, or was restarted, and the order had something to show.
        """
        try:
            answer: Answer = await workflow.execute_local_activity(
                WRITE,
                order,
                result_type=Answer,
                start_to_close_timeout=timedelta(seconds=5),
                retry_policy=_WRITE_ONCE,
                summary=str(order),
            )
        except (ActivityError, ApplicationError):
            # Not in the workflow task: while PostgreSQL is away this waits without growing the history.
            answer = await workflow.execute_activity(
                WRITE,
                order,
                result_type=Answer,
                start_to_close_timeout=timedelta(seconds=30),
                retry_policy=_WRITE_ON,
                summary=f"{order}, until PostgreSQL is back",
            )
        self.learn(answer.version)
        if order.move is not None and answer.gate in (Gate.FINAL, Gate.OTHER_ROUND):
            raise Overtaken(answer.state, answer.round)
        return answer

    def learn(self, version: int) -> None:
        """Never fall behind what the mirror knows."""
        self._version = max(self._version, version)

    async def enter(self, state: str, why: str | None, by: str | None = None) -> None:
        """Move the mirror to `state`; see `Lifecycle.enter`."""
        self.states[state]
        if self.catching_up:
            self.catching_up = state != self.state
            if state == self.state or not self.states.allows(self.state, state):
                return
        self.check_move(state)
        self.show(state)
        await self.write(self.order(move=self.move_to(state, why, by)))
        self.acted()

    def show(self, state: str) -> None:
        """Be in `state` from now on, as far as queries and the Web UI see."""
        if state != self.state:
            self.state, self.since = state, workflow.now()
            self._publish()
        self.describe()

    def arrived(self) -> None:
        """The run is where the one before it was."""
        self.catching_up = False

    def acted(self) -> None:
        """It is further than that, and has done what a retry was asked for."""
        self.arrived()
        self.retry, self._moved = None, True

    def describe(self) -> None:
        """Show the Web UI where it is and what a person can do."""
        workflow.set_current_details(details(self.status()))

    def status(self) -> LifecycleStatus:
        """Where it is, and what it waits for."""
        return LifecycleStatus(
            lifecycle=self.entity.lifecycle,
            id=self.entity.id,
            round=self.entity.round,
            state=self.state,
            since=self.since,
            final=self.final,
            attention=self.wants(self.state),
            waits_for_retry=self.waiting_for_retry,
            effects=[each.status() for each in self.performances.values()],
        )

    async def pause(
        self,
        seconds: float | None,
        wake: Callable[[], bool],
        *,
        cancellable: bool = True,
        summary: str | None = None,
    ) -> bool:
        """Wait until `wake()`, at most `seconds`; True if woken.

        Raises:
            Cancelled: somebody asked for the end, and `cancellable`.
            Renewal: the history is long, and nothing is in flight.
        """
        if wake():  # what was accepted is dealt with before anything is left
            return True
        self.check_leave(cancellable=cancellable)
        if seconds is not None and seconds <= 0:
            return False

        def woken() -> bool:
            return wake() or self._may_renew() or (cancellable and self.cancel is not None)

        if self._rested_at is None:
            self._rested_at = workflow.info().get_current_history_length()
        self.describe()
        if not workflow.unsafe.is_replaying():
            faults.point("during the wait", summary or self.state)
        try:
            await workflow.wait_condition(woken, timeout=seconds, timeout_summary=summary)
        except TimeoutError:
            self._moved = True
            return False
        self._moved = True
        if not wake():
            self.check_leave(cancellable=cancellable)
        return True

    def check_leave(self, *, cancellable: bool = True) -> None:
        """Raise `Cancelled` or `Renewal` if it is time for that."""
        if cancellable and self.cancel is not None:
            raise Cancelled
        if self._may_renew():
            self._leave()

    async def renew(self) -> NoReturn:
        """Go on in a new run, as soon as no attempt and no update is under way."""
        self._renewing = True
        await workflow.wait_condition(self._may_renew)
        self._leave()

    def _may_renew(self) -> bool:
        """Whether it is time for a new run, and nothing is under way that would be torn apart: an attempt whose
        reply it would miss, an update that waits for what only this run can bring."""
        wanted = self._renewing or (workflow.info().is_continue_as_new_suggested() and self._has_moved())
        return wanted and not self.in_flight and not self.final and workflow.all_handlers_finished()

    def _has_moved(self) -> bool:
        """Whether this run has done more than catch up: else one whose catching up is long would renew for ever."""
        length = workflow.info().get_current_history_length()
        return self._moved or (self._rested_at is not None and length > self._rested_at + MESSAGES)

    def _leave(self) -> NoReturn:
        self.leaving = True
        raise Renewal

    def request_cancel(self, request: Request) -> None:
        """Note that somebody asked for the end; without a state for that it is only logged."""
        if self.states.cancelled is None:
            workflow.logger.warning("not cancelled: %s declares no state with cancelled=True", self.entity.lifecycle)
        elif self.cancel is None:
            self.cancel = request

    def _publish(self) -> None:
        if self.lifecycle.search_attribute is not None:
            key = SearchAttributeKey.for_keyword(self.lifecycle.search_attribute)
            workflow.upsert_search_attributes([key.value_set(self.state)])

    def _read(self, given: Any) -> Any:
        try:
            return self.lifecycle.input.validate_json(json.dumps(given))
        except (ValueError, TypeError) as error:
            why = f"{self.entity.lifecycle}: the input does not fit: {problem(error)}"
            if not self._born:
                _fail(why, InvalidInput.__name__)
            raise InvalidInput(why) from None  # it was read before, by other code: the next deploy may heal that

    async def _be_born(self, given: Any) -> None:
        """A start past perdure (the `temporal` command, the Web UI) is put on record first, so that no entity is
        ever only in Temporal; and it ends here if the entity is final already (invariant 7)."""
        if not self.catching_up:
            self._publish()
        if not self._born:
            try:
                await self._record_birth(given)
            except Overtaken as standing:
                if standing.round <= self.entity.round:
                    raise
                # Whoever starts by hand does not know how often the entity was restarted.
                self.entity = replace(self.entity, round=standing.round)
                await self._record_birth(given)
            self._born = True
        self.describe()

    async def _record_birth(self, given: Any) -> None:
        move = self.move_to(self.state, "started")
        await self.write(self.order(move=move, given=self.lifecycle.input.dump_python(given, mode="json")))

    async def _attend(self, run: asyncio.Future[bool]) -> bool:
        """Temporal's own cancellation becomes a request like any other: it never tears an attempt apart."""
        while not run.done():
            try:
                await workflow.wait([run])
            except asyncio.CancelledError:
                self.request_cancel(Request(by="temporal", note="cancellation was requested through Temporal"))
        return await run

    def _check_end(self) -> None:
        if not self.final:
            raise DeclarationError(
                f"{self.entity}: run() returned in state {self.state!r}, which is not final: enter a final state first"
            )

    def check_move(self, state: str) -> None:
        if not self.states.allows(self.state, state):
            follow = ", ".join(self.states[self.state].leads_to) or "none, it is final"
            raise DeclarationError(f"{self.entity}: {self.state!r} may not lead to {state!r}; declared are: {follow}")
        if self.states[state].final and self.performances:
            busy = ", ".join(self.performances)
            raise DeclarationError(f"{self.entity}: enters {state!r}, which is final, while {busy} is being performed")

    async def _end_cancelled(self) -> None:
        assert self.cancel is not None
        assert self.states.cancelled is not None
        # What its siblings have under way, or in doubt, is settled first.
        await workflow.wait_condition(lambda: not self.performances)
        state = self.states.cancelled
        self.attention = None
        self.show(state)
        try:
            await self.write(self.order(move=self.move_to(state, self.cancel.note or "cancelled", self.cancel.by)))
        except Overtaken as standing:
            self.state = standing.state or self.state

    async def _drain(self) -> None:
        """Without this wait 58 of 60 acknowledged updates were lost."""
        await workflow.wait_condition(lambda: workflow.all_handlers_finished() and not self.in_flight)

    def _snapshot(self) -> Any:
        taken = self.lifecycle.snapshot()
        return self.recalled if taken is None else taken.model_dump(mode="json")

    def _memo(self) -> dict[str, Any]:
        return {
            CARRIED: Carried(
                round=self.entity.round,
                version=self._version,
                state=self.state,
                since=self.since,
                attention=self.attention,
                snapshot=self._snapshot(),
                again=self.again,
                ended=self.ended,
                unsettled=self.unsettled | {key: each.unsettled() for key, each in self.performances.items()},
                retry=self.retry,
                cancel=self.cancel,
            )
        }


def _entity(workflow_id: str, lifecycle: str, round: int) -> Entity:
    try:
        return Entity.of_workflow(workflow_id, lifecycle, round)
    except InvalidEntity as error:
        _fail(str(error), InvalidEntity.__name__)


def _fail(message: str, kind: str) -> NoReturn:
    """End the workflow: no later deploy could make this start right."""
    raise ApplicationError(message, type=kind, non_retryable=True)
