"""The waits of a run, and its continue-as-new, which loses no acknowledged update."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import NoReturn

from temporalio import workflow

from perdure import _faults as faults
from perdure._wire.requests import OperatorRequest
from perdure._workflow.arriving import ahead_unless_withdrawn, note_wait
from perdure._workflow.leaving import Cancelled, ContinueAsNew, Overtaken, until
from perdure._workflow.passing import passed
from perdure._workflow.recorder import Recorder
from perdure._workflow.run_state import RunState
from perdure._workflow.sending import continue_for

RECORDED_FIRST = "perdure: updates are on record first"
WAITED_ONCE = "perdure: a time that was waited for is over"
ENDS_GO_FIRST = "perdure: an end goes before a new run"
MESSAGES = 50
"""History events of messages that a run must have in its first wait before it can continue as new."""


class Waiter:
    """Makes the waits of one run.

    Attributes:
        over: set if the entity is over in the database. The next wait raises it.
    """

    def __init__(self, run: RunState, recorder: Recorder) -> None:
        self._run = run
        self._recorder = recorder
        self.over: Overtaken | None = None
        self._renewing = False
        self._due = False
        """Whether it was time for a new run when an event of the history last continued the code."""
        self._rested_at: int | None = None
        """Length of the history at the begin of this run's first wait."""
        self._updated_at: int | None = None
        """Length of the history at the last update."""

    async def pause(
        self,
        seconds: float | None,
        wake: Callable[[], bool],
        *,
        cancellable: bool = True,
        moves: Callable[[], bool] = lambda: True,
        summary: str | None = None,
    ) -> bool:
        """Wait until `wake()` is true, for at most `seconds`. Returns True if `wake()` became true.

        Args:
            moves: whether the end of the wait is progress. If the next run passes the wait at once, it is not.

        Raises:
            Cancelled: the end was requested, and the wait is `cancellable`.
            Overtaken: the entity is over in the database.
            ContinueAsNew: the history is long, and nothing is in flight.
        """
        run = self._run
        self.look()
        if wake() or run.requests.cancel is not None:
            await self._until_recorded()
        if wake():  # an accepted request is processed before the run is left
            return True
        self._check_leave(cancellable)
        if seconds is not None and seconds <= 0:
            return False

        def woken() -> bool:
            return wake() or self.may_renew() or self.may_cancel(cancellable) or self.over is not None

        if self._rested_at is None:
            self._rested_at = workflow.info().get_current_history_length()
        self._recorder.describe()
        await self._recorder.update_mirror()
        if not workflow.unsafe.is_replaying():
            faults.point("during the wait", summary or run.state)
        left, began = seconds, workflow.now()
        while True:
            in_time = await until(woken, left, summary)
            self.look()
            is_so = wake()
            if (is_so or not in_time) and moves():  # the next run would leave at once as well
                run.has_moved()
            if not in_time:
                run.events.resolved()
                return False
            if is_so or run.requests.cancel is not None:
                await self._until_recorded()
            passed(self._run.events.earliest())
            if is_so:
                return True
            self._check_leave(cancellable)
            # Another branch has begun a call at the same moment, so the run is not left now.
            if seconds is not None:
                left = max(seconds - (workflow.now() - began).total_seconds(), 0.001)

    async def wait_for(self, condition: Callable[[], bool], until: datetime | None) -> bool:
        """Wait for a condition, or a time; see `Lifecycle.wait_for`."""
        left = None if until is None else self._left_until(until)
        if left == 0.0 or condition():  # a wait that ends at once may come before the place of the previous run
            in_time = await self.pause(left, condition)
        else:
            with self._arrival():
                in_time = await self.pause(left, condition)
        if not in_time and until is not None:
            self._run.has_waited_until(until)
            # An event that makes the condition true may have come with the time-out. A lost task ended the wait by it.
            passed(min(until, self._run.events.earliest()) if condition() or until > workflow.now() else until)
        return in_time

    def _left_until(self, until: datetime) -> float:
        """The seconds until that time: none if this run, or an earlier one, has waited for it, or for a later one. If
        Temporal's clock has gone back since, the author's code does not wait for the same time again."""
        left = max((until - workflow.now()).total_seconds(), 0.0)
        before = self._run.waited_until
        if left and before is not None and until <= before and workflow.patched(WAITED_ONCE):
            return 0.0
        return left

    async def retry_requested(self) -> OperatorRequest:
        """Wait for a request for a retry; see `Lifecycle.retry_requested`."""
        asked, catches_up = self._run.requests, self._run.branch_catches_up
        request: OperatorRequest | None = None
        slot: str | None = None

        def is_requested() -> bool:
            nonlocal request, slot  # an effect of another branch may use the request up before this branch continues
            if request is None:
                request, slot = asked.retry, asked.retry_of
            return request is not None

        granted = catches_up and asked.retry is not None
        with self._recorder.describing(), asked.awaiting_retry(anew=not catches_up), self._arrival():
            if granted:
                await asyncio.sleep(0)  # a time-out around this wait may be over: the retry is for a later one
            await self.pause(None, is_requested)
        assert request is not None
        self._run.effects.retry_begins()
        continue_for(slot)
        return request

    @contextmanager
    def _arrival(self) -> Iterator[None]:
        """Surround a wait that shows that the run has caught up, unless the author's code withdraws it at once. A
        time-out that was over in the previous run is over when this run comes to it."""
        run, info = self._run, workflow.info()
        task = info.get_current_history_length()
        run.arrived()
        try:
            with ahead_unless_withdrawn():
                yield
        except asyncio.CancelledError:
            if task == info.get_current_history_length():
                run.has_not_arrived()
                if run.catching_up:
                    self._rested_at = None
            else:
                note_wait()
            raise
        else:
            note_wait()

    async def quiet(self, holds: Callable[[], bool]) -> None:
        """Return at a moment when `holds()` is true, and code that runs at the same moment has not changed that."""
        while not holds():
            await until(holds)

    async def nothing_under_way(self) -> None:
        """Return at a moment when nothing is being performed, called or written."""
        await self.quiet(lambda: not self._run.effects.performances and not self._recorder.in_flight)

    async def drained(self) -> None:
        """Wait for handlers, calls and writes: without this wait 58 of 60 acknowledged updates were lost."""
        await self.quiet(lambda: workflow.all_handlers_finished() and not self._recorder.in_flight)

    def update_came(self) -> None:
        """Note that an update of Perdure has come. The server can lose it until its workflow task is over."""
        self._updated_at = workflow.info().get_current_history_length()
        self.event_came()

    def event_came(self) -> datetime:
        """Note that an event of the history has called a handler. Returns the earliest time at which it came."""
        at = self._run.events.came()
        self.look()
        return at

    def look(self) -> None:
        """Note whether it is time for a new run. Call this where an event of the history has continued the code.

        The conditions of waits are evaluated for a refused update as well, of which the history holds nothing. If they
        looked by themselves, a replay could find it to be time at another place.
        """
        self._run.events.look()
        self._run.apart.look()
        if not self._due:
            info = workflow.info()
            self._due = (info.is_continue_as_new_suggested() and self._has_moved()) or self._leaves_its_build(info)

    async def until_apart(self) -> bool:
        """Before an update acts, wait until it is apart from earlier workflow tasks. Returns whether it has waited."""
        self.look()
        if not await self._run.apart.until_next():
            return False
        self.look()
        return True

    async def _until_recorded(self) -> None:
        """Wait until the last update is in the history, before its request is executed. If its workflow task were lost
        otherwise, database and other side would have acts that no run has, and the run would wait for the request."""
        while self._updated_at == workflow.info().get_current_history_length():
            if not workflow.patched(RECORDED_FIRST):
                return
            await self._run.events.next_task("the update is on record")

    def overtaken(self, reason: Overtaken) -> None:
        """Note that the entity is over in the database. The next wait raises `reason`."""
        self.over = self.over or reason

    def _check_leave(self, cancellable: bool) -> None:
        """Raise `Overtaken`, `Cancelled` or `ContinueAsNew` if it is time for that."""
        if self.over is not None:
            raise self.over
        if self.may_cancel(cancellable):
            raise Cancelled
        if self.may_renew():
            raise ContinueAsNew

    def may_cancel(self, cancellable: bool = True) -> bool:
        """Whether a requested end may come now. A run that starts from its top must first come back to the effects in
        doubt, and settle them. If the end has come in an earlier run, doubts are those of `cancelling`."""
        run = self._run
        doubts = run.catching_up and run.effects.doubts_left and not run.requests.stopped
        return cancellable and run.requests.ending and not doubts

    async def continue_as_new(self) -> NoReturn:
        """Continue as new, as soon as no attempt and no update is under way.

        Raises:
            ContinueAsNew: now.
            Overtaken: the entity is over in the database: another branch, or a handler, has ended it meanwhile.
        """
        self._renewing = True
        await self._recorder.update_mirror()
        await until(lambda: self.may_renew() or self.over is not None)
        if self.over is not None and not self.may_renew() and workflow.patched(ENDS_GO_FIRST):
            raise self.over
        await self.quiet(self.may_renew)
        raise ContinueAsNew

    def may_renew(self) -> bool:
        """Whether it is time for a new run, and the run interrupts nothing: no attempt whose reply the run would miss,
        and no update that waits for this run. The next run does not know that the mirror is outdated."""
        wanted = (self._renewing or self._due) and not self._recorder.is_outdated
        return wanted and not self._recorder.in_flight and not self._run.final and workflow.all_handlers_finished()

    def _leaves_its_build(self, info: workflow.Info) -> bool:
        """Whether this run is pinned to a build that is not current any more, and should leave it, so that the build
        can be stopped. Only after the first wait: if the server does not move the run, it must not continue as new for
        ever."""
        changed = getattr(info, "is_target_worker_deployment_version_changed", None)
        return bool(changed and changed()) and (self._run.moved or self._rested_at is not None)

    def _has_moved(self) -> bool:
        """Whether this run has done more than catch up. Otherwise a run that catches up long would continue as new for
        ever."""
        length = workflow.info().get_current_history_length()
        return self._run.moved or (self._rested_at is not None and length > self._rested_at + MESSAGES)
