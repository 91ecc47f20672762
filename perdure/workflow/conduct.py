"""One run of a lifecycle from its birth to its end, or to a new run.

One `Conductor` belongs to each run. Its layers: what it knows (`memory`), what it writes (`recording`), how it waits
(`waiting`). It is the only place that continues as new or ends.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from temporalio import workflow
from temporalio.exceptions import FailureError

from perdure.contracts.effects import problem
from perdure.errors import DeclarationError, InvalidInput
from perdure.privacy import describe
from perdure.telemetry import names, traces
from perdure.workflow.fitting import check_size
from perdure.workflow.leaving import Cancelled, Leave, Overtaken, Part, Renewal, fail, until
from perdure.workflow.reading import Unreadable, read, stand_still
from perdure.workflow.requests import Request
from perdure.workflow.waiting import Waiting

if TYPE_CHECKING:
    from perdure.workflow.lifecycle import Lifecycle

TOLD_AGAIN = timedelta(minutes=1)
TROUBLE = "perdure_trouble"
"""What a worker offers to its workflows: to be told that their code fails."""
ODDITY = "perdure_oddity"
"""And to be told that a clean-up should look at their entity."""


class Conductor(Waiting):
    """Conducts one run of a lifecycle; see the module."""

    def __init__(self, lifecycle: Lifecycle[Any, Any]) -> None:
        super().__init__(lifecycle)
        self._begun = False
        self._given: Any = None
        self._part = Part()
        """The author's code that is under way."""

    async def conduct(self, run: Callable[[Any], Coroutine[Any, Any, None]], given: Any) -> None:
        """Run the author's `run` and bring it to an end that loses nothing."""
        self._given = given
        about = {
            names.LIFECYCLE: self.entity.lifecycle,
            names.ROUND: self.entity.round,
            names.WORKFLOW_ID: workflow.info().workflow_id,
        }
        with traces.span_in_workflow(f"{names.SPAN_RUN} {self.entity.lifecycle}", about):
            try:
                renewing = await self._attend(asyncio.ensure_future(self._lead(run, given)))
                memo = self._memo() if renewing else {}
                check_size(self.entity, "what it hands to its next run", memo)
            except Exception as error:
                self._tell(error)
                raise
        if renewing:
            workflow.continue_as_new(given, memo=memo)

    async def _attend(self, run: asyncio.Future[bool]) -> bool:
        """Temporal's own cancellation becomes a request like any other: it never tears an attempt apart."""
        while not run.done():
            try:
                await workflow.wait([run])
            except asyncio.CancelledError:
                self.request_cancel(Request(by="temporal", note="cancellation was requested through Temporal"))
        return await run

    async def _lead(self, run: Callable[[Any], Coroutine[Any, Any, None]], given: Any) -> bool:
        """Come to an end; True if that is a new run."""
        renewing = False
        await self._be_told_again()
        try:
            await self._run_or_cancel(run, given)
        except Renewal:
            renewing = self.leaving = True
        except Overtaken as standing:
            workflow.logger.info("ended as %s: the database says so", standing.state)
            self.state, self.overtaken = self.states.today(standing.state or self.state), True
        self._part.over = True
        await self._drain()
        return renewing

    async def _run_or_cancel(self, run: Callable[[Any], Coroutine[Any, Any, None]], given: Any) -> None:
        try:
            while not await self._run(run, given):
                pass
        except Cancelled:
            await self._settle()
            if not self.final and not self.cancelled_before:
                self.cancelling = self.was_cancelling = True
                assert self.cancel is not None
                await self._attend_part(self.lifecycle.cancelling(self.cancel))
                await self._settle()
            if not self.final:
                await self._end_cancelled()

    async def _attend_part(self, code: Coroutine[Any, Any, None]) -> None:
        """Await a part of the author's code, until it ends or has to be left."""
        self._part = Part(lambda: self.cancel is not None and not self.cancelling)
        await self._part.attend(code)

    async def _settle(self) -> None:
        """What other branches of the part that was left have under way, or in doubt, comes to its end first.

        Raises:
            Overtaken: one of them learned that the entity is over.
            Renewal: a doubt is to be settled in a new run.
            Exception: one of them failed.
        """
        await self._until(lambda: not self.performances and not self.in_flight)
        self._part.over = True
        with suppress(Cancelled):
            self._part.check()
        await self.lifecycle._settle_left()

    def left_by(self, reason: Leave) -> None:
        """A handler has left: what that means for the whole run."""
        if isinstance(reason, Overtaken):
            self.over = self.over or reason
        elif isinstance(reason, Unreadable):
            self._part.leave(reason)

    async def _be_told_again(self) -> None:
        """What it was told before its history was lost is heard before `run` begins, so that the waits which that ended
        are over, and it catches up. A message that can't be delivered any more is not waited for much longer."""
        if self.last_message < self.expects:
            await until(
                lambda: self.last_message >= self.expects,
                TOLD_AGAIN.total_seconds(),
                "is told again what it was told before",
            )

    async def _run(self, run: Callable[[Any], Coroutine[Any, Any, None]], given: Any) -> bool:
        """Whether it is over; False if `run` is to be started from its top, since what stopped it can be read now."""
        try:
            readable = self._read(given)
            read(self, "the state", lambda: self.states[self.state])
            await self._be_born(readable)
            self._begun = True
            if self.cancelled_before:
                raise Cancelled
            await self._attend_part(run(readable))
            if self.was_cancelling and not self.final:
                raise Cancelled
        except Unreadable as trouble:
            self._part.over = True
            await stand_still(self, trouble)
            if self._begun and self.recalled_well:  # what it did since then must not be done to it twice
                await until(lambda: self.may_renew(wanted=True))
                self.leave()
            await self._until(lambda: not self.performances and not self.in_flight)
            return False
        self._check_end()
        return True

    def _read(self, given: Any) -> Any:
        def reading() -> Any:
            return self.lifecycle.input.validate_json(json.dumps(given))

        if not self._born and not workflow.unsafe.is_replaying():
            try:
                return reading()
            except (ValueError, TypeError) as error:
                why = f"{self.entity.lifecycle}: the input does not fit: {problem(error)}"
                fail(why, InvalidInput.__name__)
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

    async def show_again(self, by: str) -> None:
        """Write the state that it is in once more, with its input: the mirror has lost it, or shows another. Where the
        database knows an end, the run comes to it."""
        if not self._born or self.final or self.overtaken or self.leaving:
            return  # it writes by itself, or has written
        try:
            await self.write(self.order(move=self.move_to(self.state, "mirrored again", by), given=self._given))
        except Overtaken as standing:
            self.over = standing

    def _check_end(self) -> None:
        if not self.final:
            raise DeclarationError(
                f"{self.entity}: run() returned in state {self.state!r}, which is not final: enter a final state first"
            )

    async def _end_cancelled(self) -> None:
        assert self.cancel is not None
        assert self.states.cancelled is not None
        try:
            await self._move(self.states.cancelled, self.cancel.note or "cancelled", self.cancel.by)
        except Overtaken as standing:
            self.state = self.states.today(standing.state or self.state)

    def ask_for_clean_up(self, why: str) -> None:
        """Once, by the worker that is here first: nothing of it stands in the history."""
        ask = workflow.extern_functions().get(ODDITY)
        if ask is not None and not workflow.unsafe.is_replaying():
            ask(self.entity, why)

    def _tell(self, error: Exception) -> None:
        """The code fails, and goes on failing until other code is deployed: only from outside can that be shown."""
        tell = workflow.extern_functions().get(TROUBLE)
        if tell is not None and not isinstance(error, FailureError):
            tell(self.entity, describe(error))
