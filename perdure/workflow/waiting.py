"""How a run waits, and when it leaves for a new one: an update that was acknowledged is never lost on the way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from temporalio import workflow

from perdure import faults
from perdure.workflow.leaving import Cancelled, Overtaken, Renewal, until
from perdure.workflow.passing import passed
from perdure.workflow.recording import Recording
from perdure.workflow.requests import Request

if TYPE_CHECKING:
    from perdure.workflow.lifecycle import Lifecycle

RECORDED_FIRST = "perdure: updates are on record first"
MESSAGES = 50
"""History events of messages that a run must have seen in its first wait before it may go on in a new one."""


class Waiting(Recording):
    """The layer of a `Conductor` that waits."""

    def __init__(self, lifecycle: Lifecycle[Any, Any]) -> None:
        super().__init__(lifecycle)
        self.leaving = False
        """It goes on in a new run in a moment; what is asked now is to be asked again there."""
        self.over: Overtaken | None = None
        """The database said, beside what the run does, that it is over: the next wait ends with that."""
        self._renewing = False
        self._rested_at: int | None = None
        """Length of the history when this run began its first wait."""
        self._heard_at: int | None = None
        """Length of the history when the last update came."""

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
            return wake() or self.may_renew() or self._may_cancel(cancellable) or self.over is not None

        if self._rested_at is None:
            self._rested_at = workflow.info().get_current_history_length()
        self.describe()
        if not workflow.unsafe.is_replaying():
            faults.point("during the wait", summary or self.state)
        in_time = await until(woken, seconds, summary)
        self._moved = True
        if not in_time:
            return False
        passed(workflow.now())
        is_so = wake()
        if is_so or self.cancel is not None:
            await self._until_recorded()
        if not is_so:
            self.check_leave(cancellable=cancellable)
        return True

    async def wait_for(self, condition: Callable[[], bool], until: datetime | None) -> bool:
        """Wait for a condition, or a time; see `Lifecycle.wait_for`."""
        left = None if until is None else max((until - workflow.now()).total_seconds(), 0.0)
        if left != 0.0 and not condition():  # a wait that is over at once may lie before where the run was
            self.arrived()
        in_time = await self.pause(left, condition)
        if not in_time and until is not None:
            passed(until)
        return in_time

    async def enter(self, state: str, why: str | None, by: str | None = None) -> None:
        """Move the mirror to `state`; see `Lifecycle.enter`."""
        self.states[state]
        if not self._passed(state):
            await self._until_alone(state)
            self.check_move(self.state, state)
            await self._move(state, why, by)

    async def follow(self, state: str) -> None:
        """Enter a state that was declared before its effect was done, and checked then: what is done must not fail."""
        if not self._passed(state):
            await self._until_alone(state)
            await self._move(state)

    def _passed(self, state: str) -> bool:
        """Whether a run that catches up was there before.

        Raises:
            Cancelled: it was not, and has been ended by a cancel.
        """
        if self.was_cancelling and not self.cancelling:
            if state != self.state and self.states.allows(self.state, state):
                raise Cancelled
            return True
        if not self.catching_up:
            return False
        self.catching_up = state != self.state
        return not self.catching_up or not self.states.allows(self.state, state)

    async def _until_alone(self, state: str) -> None:
        """A final state is entered after whatever is being performed, or was left in doubt."""
        if self.states[state].final:
            while self.performances:
                await self.pause(None, lambda: not self.performances)
            await self.lifecycle._settle_left()

    async def _move(self, state: str, why: str | None = None, by: str | None = None) -> None:
        before = self.state
        while True:
            self.show(state)
            answer = await self.write(self.order(move=self.move_to(state, why, by)))
            if not answer.unsettled:
                break
            self.show(before)
            for given_up in self.find_doubts(answer.unsettled):
                await self.write(self.order(fence=given_up))
            await self.lifecycle._settle_left()
        self.acted()

    async def retry_requested(self) -> Request:
        """Wait until somebody asks for a retry; see `Lifecycle.retry_requested`."""
        if not self.catching_up:  # else the run before may have been asked, and have done nothing about it yet
            self.retry = None
        self.arrived()
        self.waiting_for_retry = True
        try:
            await self.pause(None, lambda: self.retry is not None)
        finally:
            self.waiting_for_retry = False
        assert self.retry is not None
        return self.retry

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
        """Raise `Overtaken`, `Cancelled` or `Renewal` if it is time for that."""
        if self.over is not None:
            raise self.over
        if self._may_cancel(cancellable):
            raise Cancelled
        if self.may_renew():
            self.leave()

    @property
    def ending(self) -> bool:
        """Whether somebody has asked for the end, and it has not begun."""
        return self.cancel is not None and not self.cancelling

    def _may_cancel(self, cancellable: bool) -> bool:
        """Whether the end that somebody asked for may come now: not before a run that starts from its top is back at
        what was in doubt, to settle that first."""
        doubts = self.catching_up and self.doubts_left
        return cancellable and self.ending and not doubts

    async def renew(self) -> NoReturn:
        """Go on in a new run, as soon as no attempt and no update is under way."""
        self._renewing = True
        await until(self.may_renew)
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
        raise Renewal

    def request_cancel(self, request: Request) -> None:
        """Note that somebody asked for the end; without a state for that it is only logged."""
        if self.states.cancelled is None:
            workflow.logger.warning("not cancelled: %s declares no state with cancelled=True", self.entity.lifecycle)
        elif self.cancel is None:
            self.cancel = request
            for each in self.performances.values() if self._may_cancel(cancellable=True) else ():
                each.take_back()

    async def _drain(self) -> None:
        """Without this wait 58 of 60 acknowledged updates were lost."""
        await self._until(lambda: workflow.all_handlers_finished() and not self.in_flight)
        self.gone = True

    async def _until(self, quiet: Callable[[], bool]) -> None:
        """Return at a moment when that holds: what else goes on at the same moment may have begun something."""
        while not quiet():
            await until(quiet)
