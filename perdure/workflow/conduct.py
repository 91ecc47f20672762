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
from temporalio.exceptions import ActivityError, ApplicationError, FailureError

from perdure import faults
from perdure.contracts.effects import problem
from perdure.contracts.keys import Entity
from perdure.contracts.terms import all_terms
from perdure.errors import DeclarationError, InvalidEntity, InvalidInput, PerdureError
from perdure.store.writes import Answer, Column, Fence, Gate, Move, Write, storable
from perdure.telemetry import metrics, names, traces
from perdure.workflow.carried import CARRIED, Carried
from perdure.workflow.details import details
from perdure.workflow.leaving import Cancelled, Overtaken, Renewal
from perdure.workflow.reading import Unreadable, read, stand_still
from perdure.workflow.requests import Request
from perdure.workflow.status import LifecycleStatus

if TYPE_CHECKING:
    from perdure.workflow.lifecycle import Lifecycle
    from perdure.workflow.performing import Performance

WRITE = "perdure.write"
"""Activity type of the bookkeeping: one `Write`, one `Answer`."""
TROUBLE = "perdure_trouble"
"""What a worker offers to its workflows: to be told that their code fails."""
RECORDED_FIRST = "perdure: updates are on record first"
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
        self.state: str = self.states.today(carried.state or str(self.states.initial))
        self.since = carried.since or workflow.now()
        self.attention = carried.attention
        self.recalled = carried.snapshot
        self._slots = {former: each.name for each in lifecycle.effects for former in each.formerly}
        self.again = {self._slot(slot): times for slot, times in carried.again.items()}
        self.ended = {key: how.model_copy(update={"slot": self._slot(how.slot)}) for key, how in carried.ended.items()}
        self.unsettled = dict(carried.unsettled)
        self.terms = dict(carried.terms)
        """Of the effects in this run, by the names that their keys carry; none where an older release began it."""
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
        self.stands, self.stood = False, 0
        """Whether it stands still, since something on record can't be read; how often it did so before."""
        self._begun = False
        self.look = False
        """Somebody asks it to look whether it can be read now."""
        self.recalled_well = self.recalled is None
        """What is on record of what `run` kept is in the lifecycle now, so that its snapshot holds all of it."""
        self._version = carried.version
        self._born = carried.born
        self._renewing = False
        self._moved = False
        self._counted = carried.state
        """The state that was last counted as entered."""
        self._rested_at: int | None = None
        """Length of the history when this run began its first wait."""
        self._heard_at: int | None = None
        """Length of the history when the last update came."""

    @property
    def final(self) -> bool:
        """Whether the lifecycle is over."""
        return self.states.on_record(self.state).final

    async def conduct(self, run: Callable[[Any], Awaitable[None]], given: Any) -> None:
        """Run the author's `run` and bring it to an end that loses nothing."""
        about = {
            names.LIFECYCLE: self.entity.lifecycle,
            names.ROUND: self.entity.round,
            names.WORKFLOW_ID: workflow.info().workflow_id,
        }
        with traces.span_in_workflow(f"{names.SPAN_RUN} {self.entity.lifecycle}", about):
            try:
                renewing = await self._attend(asyncio.ensure_future(self._lead(run, given)))
            except Exception as error:
                self._tell(error)
                raise
        if renewing:
            workflow.continue_as_new(given, memo=self._memo())

    def _tell(self, error: Exception) -> None:
        """The code fails, and goes on failing until other code is deployed: only from outside can that be shown."""
        tell = workflow.extern_functions().get(TROUBLE)
        if tell is not None and not isinstance(error, FailureError):
            # Of others than perdure's own only what they are: their messages may quote the input.
            tell(self.entity, f"{type(error).__name__}" + (f": {error}" if isinstance(error, PerdureError) else ""))

    async def _lead(self, run: Callable[[Any], Awaitable[None]], given: Any) -> bool:
        """Come to an end; True if that is a new run."""
        renewing = False
        try:
            while not await self._run(run, given):
                pass
        except Renewal:
            renewing = True
        except Cancelled:
            await self._end_cancelled()
        except Overtaken as standing:
            workflow.logger.info("ended as %s: the database says so", standing.state)
            self.state, self.overtaken = self.states.today(standing.state or self.state), True
        await self._drain()
        return renewing

    async def _run(self, run: Callable[[Any], Awaitable[None]], given: Any) -> bool:
        """Whether it is over; False if `run` is to be started from its top, since what stopped it can be read now."""
        try:
            readable = self._read(given)
            read(self, f"the state {self.state!r}", lambda: self.states[self.state])
            await self._be_born(readable)
            self._begun = True
            await run(readable)
        except Unreadable as trouble:
            await stand_still(self, trouble)
            if self._begun and self.recalled_well:  # what it did since then must not be done to it twice
                await workflow.wait_condition(lambda: self.may_renew(wanted=True))
                self.leave()
            return False
        self._check_end()
        return True

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
        declared = self.states.on_record(state)
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
        return self.attention or (f"{state} wants a person" if self.states.on_record(state).attention else None)

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
        self._count_state()

    def _count_state(self) -> None:
        """It is on record that this state was entered."""
        if self.state != self._counted:
            self._counted = self.state
            metrics.count(
                workflow.metric_meter(), names.STATES_ENTERED, lifecycle=self.entity.lifecycle, state=self.state
            )

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
            waits_for_retry=self.waiting_for_retry and self.retry is None and self.cancel is None,
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
        if wake() or self.cancel is not None:
            await self._until_recorded()
        if wake():  # what was accepted is dealt with before anything is left
            return True
        self.check_leave(cancellable=cancellable)
        if seconds is not None and seconds <= 0:
            return False

        def woken() -> bool:
            return wake() or self.may_renew() or (cancellable and self.cancel is not None)

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
        is_so = wake()
        if is_so or self.cancel is not None:
            await self._until_recorded()
        if not is_so:
            self.check_leave(cancellable=cancellable)
        return True

    def heard(self) -> None:
        """An update of perdure's own has come; until its workflow task is over, the server can lose it."""
        self._heard_at = workflow.info().get_current_history_length()

    async def _until_recorded(self) -> None:
        """What an update asks for is not begun before the update stands in the history: if its workflow task were lost,
        database and other side would have what no run knows of, and the run would wait to be asked for it."""
        while self._heard_at == workflow.info().get_current_history_length():
            if not workflow.patched(RECORDED_FIRST):
                return
            await workflow.sleep(0.001, summary="the update is on record")

    def check_leave(self, *, cancellable: bool = True) -> None:
        """Raise `Cancelled` or `Renewal` if it is time for that."""
        if cancellable and self.cancel is not None:
            raise Cancelled
        if self.may_renew():
            self.leave()

    async def renew(self) -> NoReturn:
        """Go on in a new run, as soon as no attempt and no update is under way."""
        self._renewing = True
        await workflow.wait_condition(self.may_renew)
        self.leave()

    def may_renew(self, wanted: bool = False) -> bool:
        """Whether it is time for a new run, and nothing is under way that would be torn apart: an attempt whose
        reply it would miss, an update that waits for what only this run can bring."""
        wanted = wanted or self._renewing or (workflow.info().is_continue_as_new_suggested() and self._has_moved())
        return wanted and not self.in_flight and not self.final and workflow.all_handlers_finished()

    def _has_moved(self) -> bool:
        """Whether this run has done more than catch up: else one whose catching up is long would renew for ever."""
        length = workflow.info().get_current_history_length()
        return self._moved or (self._rested_at is not None and length > self._rested_at + MESSAGES)

    def leave(self) -> NoReturn:
        """Go on in a new run, now."""
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
        def reading() -> Any:
            return self.lifecycle.input.validate_json(json.dumps(given))

        if not self._born and not workflow.unsafe.is_replaying():
            try:
                return reading()
            except (ValueError, TypeError) as error:
                why = f"{self.entity.lifecycle}: the input does not fit: {problem(error)}"
                _fail(why, InvalidInput.__name__)
        return read(self, "the input", reading)

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
        self._count_state()
        self.describe()

    async def _record_birth(self, given: Any) -> None:
        move = self.move_to(self.state, "started")
        answer = await self.write(self.order(move=move, given=self.lifecycle.input.dump_python(given, mode="json")))
        self.terms = answer.terms or {}

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

    def check_move(self, state: str, origin: str | None = None) -> None:
        origin = origin or self.state
        if not self.states.allows(origin, state):
            follow = ", ".join(self.states[origin].leads_to) or "none, it is final"
            raise DeclarationError(f"{self.entity}: {origin!r} may not lead to {state!r}; declared are: {follow}")
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
            self._count_state()
        except Overtaken as standing:
            self.state = self.states.today(standing.state or self.state)

    async def _drain(self) -> None:
        """Without this wait 58 of 60 acknowledged updates were lost."""
        await workflow.wait_condition(lambda: workflow.all_handlers_finished() and not self.in_flight)

    def _snapshot(self) -> Any:
        taken = None if self.stands and not self.recalled_well else self.lifecycle.snapshot()
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
                terms=all_terms(self.lifecycle.effects),
            )
        }

    def _slot(self, slot: str) -> str:
        """Today's name of an effect with its suffix."""
        name, _, suffix = slot.partition("/")
        name = self._slots.get(name, name)
        return f"{name}/{suffix}" if suffix else name


def _entity(workflow_id: str, lifecycle: str, round: int) -> Entity:
    try:
        return Entity.of_workflow(workflow_id, lifecycle, round)
    except InvalidEntity as error:
        _fail(str(error), InvalidEntity.__name__)


def _fail(message: str, kind: str) -> NoReturn:
    """End the workflow: no later deploy could make this start right."""
    raise ApplicationError(message, type=kind, non_retryable=True)
