"""One run of a lifecycle from its birth to its end, or to a new run. No other module continues as new, or ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import FailureError

from perdure._text.privacy import describe
from perdure._wire.requests import OperatorRequest
from perdure._wire.terms import OwnTerms
from perdure._workflow.arriving import go_ahead, note_wait
from perdure._workflow.author import Author
from perdure._workflow.fitting import check_size
from perdure._workflow.leaving import Cancelled, ContinueAsNew, Leave, Overtaken, Part, fail, to_its_end, until
from perdure._workflow.ordering import order_tasks
from perdure._workflow.passing import passed
from perdure._workflow.performing import Performance
from perdure._workflow.reading import Unreadable, read, stand_still
from perdure._workflow.recorder import Recorder
from perdure._workflow.run_state import RunState
from perdure._workflow.stepping import take
from perdure._workflow.transitions import Transitions
from perdure._workflow.waiter import Waiter
from perdure.contracts.dumping import dump
from perdure.contracts.effects import Effect, first_problem
from perdure.contracts.keys import Key
from perdure.contracts.outcomes import Done, NotPerformed
from perdure.contracts.steps import Step
from perdure.errors import DeclarationError, InvalidInput
from perdure.telemetry import names, traces

In = TypeVar("In")
Out = TypeVar("Out")
Run = Callable[[Any], Coroutine[Any, Any, None]]
"""The author's `run`, with the input from Temporal."""

SHOWN_AFTERWARDS = "perdure: the state is shown again after a request for the mirror"
REDELIVERY_TIMEOUT = timedelta(minutes=1)
REPORT_FAILURE = "perdure_report_failure"
"""Name of the function of a worker that its workflows call when their code fails."""
ASK_FOR_RECONCILIATION = "perdure_ask_for_reconciliation"
"""Name of the function of a worker that its workflows call to request a reconciliation of their entity."""


class Conductor:
    """Conducts one run.

    Attributes:
        run: the state of the run.
        recorder: makes the writes of the run.
        waiter: makes the waits of the run.
        transitions: change the lifecycle's state.
    """

    def __init__(self, author: Author) -> None:
        order_tasks(asyncio.get_running_loop())
        self._author = author
        self.run = RunState(author)
        self.recorder = Recorder(self.run, author)
        self.waiter = Waiter(self.run, self.recorder)
        self.transitions = Transitions(self.run, self.recorder, self.waiter, self._settle_doubts)
        self._begun = False
        self._given: Any = None
        self._part = Part()
        """The author's code that is under way."""

    async def conduct(self, run: Run, given: Any) -> None:
        """Run the author's `run`, and end it without losing a message, an update or a call."""
        self._given = given
        entity = self.run.entity
        about = {
            names.LIFECYCLE: entity.lifecycle,
            names.GENERATION: entity.generation,
            names.WORKFLOW_ID: workflow.info().workflow_id,
        }
        with traces.span_in_workflow(f"{names.SPAN_RUN} {entity.lifecycle}", about):
            try:
                renewing = await self._note_cancellation(asyncio.create_task(self._lead(run)))
                memo = self.run.memo(self._author) if renewing else {}
                check_size(self.run.entity, "what it passes to its next run", memo)
            except Exception as error:
                self._report_failure(error)
                raise
        if renewing:
            # A pinned run continues on the current build, so that its old build can be stopped.
            upgrade = workflow.ContinueAsNewVersioningBehavior.AUTO_UPGRADE
            versioned = workflow.info().get_current_deployment_version() is not None
            workflow.continue_as_new(given, memo=memo, initial_versioning_behavior=upgrade if versioned else None)

    async def perform(
        self,
        effect: Effect[In, Out],
        given: In,
        *,
        suffix: str | None,
        own: OwnTerms | None,
        entering: str | None,
        then: str | None,
        expires_at: datetime | None,
        confirmed_by: Callable[[], Out | None] | None,
    ) -> Done[Out] | NotPerformed:
        """Perform an effect for the author's code; see `Lifecycle.perform`."""
        performance = self._performance(
            effect,
            # A deploy may have changed what the type accepts of inputs that have been performed.
            effect.dump_input(given, read_back=not workflow.unsafe.is_replaying()),
            suffix=suffix,
            own=own,
            entering=entering,
            then=then,
            expires_at=expires_at,
            confirmed_by=confirmed_by,
        )
        try:
            end = await to_its_end(performance.run(), performance.withdraw)
        except asyncio.CancelledError:
            if performance.begun:
                note_wait()
            raise
        self.waiter.look()
        if performance.begun:
            go_ahead()
        if performance.passed_at is not None:
            passed(performance.passed_at)
        self.run.events.went_on()
        return end

    async def take(self, step: Step[In, Out], given: In) -> Out:
        """Take a step for the author's code; see `Lifecycle.step`."""
        taken = await take(self.run, self.recorder, self.waiter, step, given)
        self.waiter.look()
        self.run.events.went_on()
        return taken

    async def mirror_again(self, by: str) -> None:
        """Write the present state again, with the input: the mirror has lost it, or shows another. If the database has
        an end, the run comes to it."""
        run, recorder, shown = self.run, self.recorder, None
        while run.has_record and not (run.final or run.overtaken or run.leaving):  # else the run itself writes
            if shown is not None and (shown == run.state or not workflow.patched(SHOWN_AFTERWARDS)):
                return
            shown = run.state
            order = recorder.order(move=recorder.move_to(shown, "mirrored again", by), given=self._given)
            try:
                await recorder.write(order)
            except Overtaken as standing:
                self.waiter.overtaken(standing)
                return
            # An attempt under way may have entered its state before this write, or may not enter the state that this
            # write shows.
            await self.waiter.quiet(lambda: not recorder.entering)
            if recorder.last_move > order.version:
                return

    def request_cancel(self, request: OperatorRequest) -> None:
        """Note a request for the end. It is only logged if no state has `cancelled=True`."""
        run = self.run
        if run.declared.cancelled is None:
            workflow.logger.warning("not cancelled: %s declares no state with cancelled=True", run.entity.lifecycle)
        elif run.requests.cancel is None:
            run.requests.for_cancel(request)
            for each in run.effects.performances.values() if self.waiter.may_cancel() else ():
                each.take_back()

    def left_by(self, reason: Leave) -> None:
        """Note that a handler was left, with the reason, which may hold for the whole run."""
        if isinstance(reason, Overtaken):
            self.waiter.overtaken(reason)
        elif isinstance(reason, Unreadable):
            self._part.leave(reason)

    def ask_for_reconciliation(self, why: str) -> None:
        """Request a reconciliation of the entity, but not on replay, because the history does not hold the request."""
        ask = workflow.extern_functions().get(ASK_FOR_RECONCILIATION)
        if ask is not None and not workflow.unsafe.is_replaying():
            ask(self.run.entity, why)

    async def _note_cancellation(self, run: asyncio.Future[bool]) -> bool:
        """Turn Temporal's own cancellation into a request like any other, so that it interrupts no attempt."""
        while not run.done():
            try:
                await workflow.wait([run])
            except asyncio.CancelledError:
                self.request_cancel(OperatorRequest(by="temporal", note="cancellation was requested through Temporal"))
        return await run

    async def _lead(self, run: Run) -> bool:
        """Lead the run to its end. Returns True if a new run follows."""
        renewing = False
        await self._await_redelivery()
        try:
            await self._run_or_cancel(run)
        except ContinueAsNew:
            renewing = True
            self.run.leave()
        except Overtaken as standing:
            workflow.logger.info("ended as %s, as the database shows", standing.state)
            self.run.overtake(standing.state)
            self.waiter.overtaken(standing)
        self._part.end()
        await self.waiter.drained()
        if self.run.overtaken:
            self.recorder.publish()
            self.recorder.describe()
        self.recorder.close()
        return renewing

    async def _await_redelivery(self) -> None:
        """Wait for the messages that came before the history was lost, so that `run` passes the waits that they ended,
        and catches up. The wait is short, because a message may not be deliverable any more."""
        run = self.run
        if run.last_message < run.expects:
            await until(
                lambda: run.last_message >= run.expects,
                REDELIVERY_TIMEOUT.total_seconds(),
                "receives again the messages of before",
            )

    async def _run_or_cancel(self, run: Run) -> None:
        try:
            while not await self._run(run):
                pass
        except Cancelled:
            try:
                await self._cancel()
            except Unreadable as unreadable:
                await self._stand_still(unreadable)
                await self.waiter.continue_as_new()

    async def _cancel(self) -> None:
        """Lead the run from the cancel that ended the author's `run` to its end."""
        await self._settle()
        if not self.run.final:
            is_first = not self.run.requests.was_cancelling
            request = self.run.requests.begin_cancelling()
            if not self.run.requests.cancelled_before:
                await self._attend(self._cancelling(request, is_first))
                await self._settle()
        if not self.run.final:
            await self._end_cancelled()

    async def _cancelling(self, request: OperatorRequest, is_first: bool) -> None:
        if is_first:  # it does not catch up with an earlier run
            note_wait()
        await self._author.cancelling(request)

    async def _run(self, run: Run) -> bool:
        """Run the author's code. Returns False if `run` must start from its top, because the record is readable now."""
        try:
            readable = self._read(self._given)
            read(self.run, "the state", lambda: self.run.declared[self.run.state])
            await self._record_start(readable)
            self._begun = True
            if self.run.requests.cancelled_before:
                raise Cancelled
            await self._attend(self._call(run, readable))
            if self.run.requests.was_cancelling and not self.run.final:
                raise Cancelled
        except Unreadable as unreadable:
            await self._stand_still(unreadable)
            if self._begun and self.run.restored_well:  # a restored lifecycle must not apply its changes twice
                await self.waiter.continue_as_new()
            await self.waiter.nothing_under_way()
            return False
        self._check_end()
        return True

    async def _stand_still(self, unreadable: Unreadable) -> None:
        self._part.end()
        self.ask_for_reconciliation("it stands still")
        await stand_still(self.run, self.recorder, self.waiter, unreadable)

    async def _call(self, run: Run, given: Any) -> None:
        self.run.begin()
        await run(given)

    async def _attend(self, code: Coroutine[Any, Any, None]) -> None:
        """Await a part of the author's code, until it ends or is left."""
        self._part = Part(lambda: self.run.requests.ending)
        await self._part.attend(code)

    async def _settle(self) -> None:
        """Wait for the calls and doubts of other branches of the part that was left.

        Raises:
            Overtaken: the entity is over, as one of the branches found.
            ContinueAsNew: a doubt is to be settled in a new run.
            Exception: one of the branches failed. A task group does not end beside a branch that was left.
        """
        await self.waiter.nothing_under_way()
        self._part.end()
        with suppress(Cancelled, Unreadable):  # the code that could not read it is left
            self._part.check()
        await self._settle_doubts()

    async def _settle_doubts(self) -> None:
        """Settle the doubts that `run` has not come back to: by the effect's policy, or by a person if the doubt is
        only in the record."""
        for key, left in self.run.effects.doubts_left.items():
            effect = next((each for each in self._author.effects if each.identity == left.effect), None)
            if effect is not None and key not in self.run.effects.performances:  # a handler may have begun it meanwhile
                performance = self._performance(
                    effect, left.given, suffix=left.suffix, own=left.own, expires_at=left.expires_at, key=Key(key)
                )
                performance.withdraw()
                with suppress(asyncio.CancelledError):
                    await performance.run()

    def _performance(self, effect: Effect[In, Out], given: Any, **more: Any) -> Performance[In, Out]:
        return Performance(self.run, self.recorder, self.waiter, self.transitions, effect, given, **more)

    def _read(self, given: Any) -> Any:
        def reading() -> Any:
            return self._author.input.validate_json(json.dumps(given))

        if not self.run.has_record and not workflow.unsafe.is_replaying():
            try:
                return reading()
            except (ValueError, TypeError) as error:
                why = f"{self.run.entity.lifecycle}: the input does not fit: {first_problem(error)}"
                fail(why, InvalidInput.__name__)
        return read(self.run, "the input", reading)

    async def _record_start(self, given: Any) -> None:
        """Record a start outside Perdure (the `temporal` command, the Web UI) first, so that no entity is only in
        Temporal. The run ends here if the entity is final already (invariant 7)."""
        run = self.run
        if not run.catching_up:
            self.recorder.publish()
        if not run.has_record:
            try:
                await self._write_start(given)
            except Overtaken as standing:
                if standing.generation <= run.entity.generation:
                    raise
                # A start by hand does not contain the number of restarts.
                run.take_generation(standing.generation)
                await self._write_start(given)
            run.note_born()
        self.recorder.count_state()
        self.recorder.describe()

    async def _write_start(self, given: Any) -> None:
        move = self.recorder.move_to(self.run.state, "started")
        author = self._author.input
        given = dump(author.serializer, given, reader=None if workflow.unsafe.is_replaying() else author)
        answer = await self.recorder.write(self.recorder.order(move=move, given=given))
        self.run.effects.take_terms(answer.terms)

    def _check_end(self) -> None:
        run = self.run
        if not run.final:
            raise DeclarationError(
                f"{run.entity}: run() returned in state {run.state!r}, which is not final: enter a final state first"
            )

    async def _end_cancelled(self) -> None:
        cancel, state = self.run.requests.cancel, self.run.declared.cancelled
        assert cancel is not None
        assert state is not None
        try:
            await self.transitions.move(state, cancel.note or "cancelled", cancel.by)
        except Overtaken as standing:
            self.run.overtake(standing.state)

    def _report_failure(self, error: Exception) -> None:
        """Report to the worker that the code fails, which it does until other code is deployed. The run itself cannot
        show that."""
        report = workflow.extern_functions().get(REPORT_FAILURE)
        if report is not None and not isinstance(error, FailureError):
            report(self.run.entity, describe(error))
