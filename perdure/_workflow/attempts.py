"""The attempts of one performance: each is ordered with what is committed beside it, and its end is taken in, be it a
report or silence."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, TimeoutError, TimeoutType

from perdure._text.shown import markdown
from perdure._wire.orders import AttemptOrder, Report, Said
from perdure._wire.writes import EffectView, FenceOp, Move, Write, storable
from perdure._workflow.calling import InLine, Way, call
from perdure._workflow.effect_record import EffectRecord
from perdure._workflow.fitting import check_size
from perdure._workflow.leaving import Overtaken
from perdure._workflow.recorder import Recorder
from perdure._workflow.run_state import RunState
from perdure.contracts.outcomes import EffectStatus
from perdure.contracts.policies import Dedupe, Repeat
from perdure.errors import DeclarationError
from perdure.telemetry import metrics, names

In = TypeVar("In")
Out = TypeVar("Out")


class Attempts(Generic[In, Out]):
    """Makes the attempts of one performance, one after the other.

    Args:
        entering: the state that is committed with the first attempt's record.
        then: the state that it is to be in if the effect is done.

    Attributes:
        ordered_at: when the last one was ordered as an activity.
    """

    def __init__(
        self,
        run: RunState,
        recorder: Recorder,
        record: EffectRecord[In, Out],
        *,
        entering: str | None,
        then: str | None,
        expires_at: datetime | None,
    ) -> None:
        self._run = run
        self._recorder = recorder
        self._record = record
        self._enters = entering
        self._then = then
        self._expires_at = expires_at
        self.ordered_at: datetime | None = None
        self._within: float | None = None
        """How many seconds after the first one in doubt the last attempt had to begin by; None = no limit."""
        self._shown: str | None = None
        """The state that the last attempt was to enter."""
        self._follows: Move | None = None
        """What is to be committed with the outcome of the attempt that was ordered last, if it is done."""
        self._follows_at = 0
        """Version of that write."""
        self._moved: Move | None = None
        """What was committed with the outcome."""
        self._in_line: InLine | None = None
        """The attempt that was ordered and may still wait for its turn."""

    def check(self) -> None:
        """Once, before anything is sent, and from the state that it will be in: what is done must not fail the run."""
        origin = self._enters or (None if self._run.catching_up else self._run.state)
        if self._then is not None and origin is not None and not self._run.has_passed(self._then):
            self._run.check_move(origin, self._then)

    async def make(self, within: timedelta | None) -> None:
        """One attempt, until its end is known as well as it can be.

        Args:
            within: how long after the first one in doubt it must begin.

        Raises:
            Overtaken: the database has reported that the entity is over.
        """
        before = self._run.state
        order = self._order(within)
        way = Way(self._record.name, self._record.inline, self._record.timeout, self._expires_at, self._wait_in_line)
        self.ordered_at = None if self._record.inline else workflow.now()
        try:
            async with self._recorder.under_way():
                self._recorder.describe()
                summary = markdown(f"{self._record.slot}: attempt {order.number}")
                report = await call(self._record.effect, order, way, summary)
        except (ActivityError, ApplicationError) as failure:
            await self._lost(failure, before)
            return
        except asyncio.CancelledError as failure:
            task = asyncio.current_task()
            if self._in_line is None or task is None or task.cancelling():
                raise
            await self._lost(failure, before)  # it was taken back as its end came in
            return
        finally:
            self._in_line = None
        await self._learn(report, before)

    def take_back(self) -> None:
        """Somebody has asked for the end: what waits for its turn is not to be handed out any more, unless it is to
        settle a doubt."""
        if self._in_line is not None and not self._record.in_doubt:
            self._in_line.cancel()

    async def read(self, op: FenceOp = FenceOp.READ, **more: Any) -> None:
        """Read the fence again, as every policy does before it repeats or escalates."""
        record, run = self._record, self._run
        view = record.known.effect
        answer = await record.ask(op, **more)
        record.see(answer.effect or EffectView(), answer)
        if answer.gate.over:
            raise Overtaken(answer.state)
        known = record.known
        if view.in_doubt and known.effect.status is EffectStatus.NOT_DONE:  # as in `_lost`, where the no comes later
            record.note(spared=min(known.spared + 1, known.failures))
        begun, standing, enters = known.effect.attempts > view.attempts, run.today(answer.state), self._enters
        if not record.is_new or not begun or standing is None or enters is None:
            return
        # By a workflow task that was lost: the state was committed with the record. It is written again where this run
        # has shown an earlier state since.
        if run.declared.allows(run.state, enters):
            if self._recorder.last_move > record.known.effect.version:
                await self._recorder.move(enters)
            self._recorder.show(enters)

    def hides(self) -> bool:
        """Whether an attempt has entered its state, and an earlier one is on record all the same: the attempt was made
        by a workflow task that was lost, the next task wrote the earlier state, and then Temporal lost the history."""
        entered, declared, state = self._enters, self._run.declared, self._run.state
        if entered is None or not self._record.known.effect.attempts:
            return False
        if state == entered or not declared.allows(state, entered):
            return False
        return not declared.leads(entered, state)

    def has_followed(self) -> bool:
        """Whether `then` was committed with the outcome, with what the lifecycle remembers now."""
        moved, then = self._moved, self._then
        if moved is None or then is None or self._run.state != then:
            return False
        if not moved.final and self._recorder.last_move > self._follows_at:
            return False  # a write that was ordered later has shown the state of before once more
        now = self._recorder.move_to
        return moved.final or moved == now(then).model_copy(update={"memory": moved.memory})

    def acted(self) -> None:
        """The effect has brought the run further than the one before it, unless it only repeats what that has done."""
        if not self._record.is_behind:
            self._recorder.acted()

    def _order(self, within: timedelta | None) -> AttemptOrder:
        record = self._record
        move = self._entering()
        self._shown = None if move is None else move.state
        self._within = None if within is None else within.total_seconds()
        fence = record.fence(FenceOp.BEGIN, after=record.known.effect.token, within=self._within)
        order = AttemptOrder(
            write=self._recorder.order(move=move, fence=fence),
            input=record.input,
            number=record.known.effect.attempts + 1,
            timeout=record.timeout.total_seconds(),
            progress=record.progress,
            then=self._with_outcome(),
            gives_way=None if record.own is None else isinstance(record.own.doubt, (Repeat, Dedupe)),
            expires_at=self._expires_at,
        )
        check_size(self._run.entity, f"an attempt of {record.slot}", order)
        self._follows, self._moved = order.then.move if order.then else None, None
        self._follows_at = order.then.version if order.then else 0
        return order

    def _wait_in_line(self, attempt: InLine) -> None:
        self._in_line = attempt

    def _entering(self) -> Move | None:
        run, entering = self._run, self._enters
        if entering is None:
            return None
        run.come_to(entering)
        if entering == run.state:
            return None
        was_there = run.catching_up or run.has_passed(entering) or self._record.known.effect.attempts > 0
        if was_there and not run.declared.allows(run.state, entering):
            return None
        run.check_move(run.state, entering)
        if run.declared[entering].final:
            raise DeclarationError(
                f"{self._record.key}: entering={entering!r} is a final state: it can only follow, by then="
            )
        self._recorder.show(entering)
        return self._recorder.move_to(entering)

    def _with_outcome(self) -> Write | None:
        """What is committed with the outcome, if it is done: the state that was declared beforehand. One that the run
        would only choose afterwards never is. Not beside others: an end would take the ground from under them."""
        run, then = self._run, self._then
        alone = len(run.effects.performances) == 1 and not run.effects.doubts_left
        if then is None or not alone or not run.declared.allows(run.state, then):
            return None
        return self._recorder.order(move=self._recorder.move_to(then))

    async def _learn(self, report: Report, before: str) -> None:
        run, recorder, record = self._run, self._recorder, self._record
        run.learn(report.version)
        if report.progress is not None:
            record.take_progress(report.progress)
        if report.said is Said.OVER:
            raise Overtaken(report.state)
        standing = run.today(report.state)
        # A record that stands was made together with the state: by another execution of this attempt, by the run
        # that this one is a reset of, or by an earlier `perform`.
        stands = report.effect is not None and record.is_new
        entered = report.begun or stands or standing == run.state
        state = run.state if entered else self._back(before)
        if not report.recorded:
            state = await self._put_on_record(report, before, state)
        elif report.effect is None:
            # An execution before this one may have begun: only the fence can tell.
            await self._find_out(FenceOp.READ, None, before)
            state = run.state
        else:
            record.see(report.effect, report)
        if report.moved or self._ended_in_then(report.effect, standing):
            self._moved = self._follows
        recorder.show(self._moved.state if self._moved else state)
        if not self._moved and not report.begun and standing not in (None, state) and state != before:
            await recorder.move(state)
        if report.begun:
            if report.effect is not None and report.effect.attempts == 1:
                run.effects.goes_first()
            self.acted()
            self._count(report.said.value)
        record.note_end(report)

    async def _put_on_record(self, report: Report, before: str, state: str) -> str:
        """Its own commit failed: the fence must know before anything else is decided. The state that it is in."""
        run, record = self._run, self._record
        answer = await record.ask(
            FenceOp.OUTCOME,
            token=report.token,
            within=self._within,
            status=EffectStatus(report.said.value),
            receipt=report.receipt,
            why=storable(report.why),
        )
        if answer.gate.over:
            raise Overtaken(answer.state)
        # A state further on was entered by a workflow task that was lost: this run comes to it in its turn.
        known = run.today(answer.state)
        if known is not None and known in (before, self._shown):
            state = known
        elif answer.effect is not None and answer.effect.attempts:  # its state was entered with its record
            state = run.state
        record.see(answer.effect or EffectView(token=report.token), answer)
        return state

    async def _lost(self, failure: BaseException, before: str) -> None:
        """The activity gave no answer. The fence knows whether anything can have left (invariant 2)."""
        cause = failure.__cause__ if isinstance(failure, ActivityError) else failure
        why = "its worker was lost"
        if isinstance(cause, TimeoutError):
            if cause.type is TimeoutType.SCHEDULE_TO_START:
                self._recorder.show(self._back(before))
                self._record.note(unmade=True)
                return
            why = f"its worker was lost ({cause.type.name.lower() if cause.type else 'time-out'})"
            if cause.last_heartbeat_details:
                self._record.take_progress(cause.last_heartbeat_details[0])
        # What was taken back from its line was never handed out: nothing is lost.
        op = FenceOp.READ if isinstance(cause, CancelledError) else FenceOp.LOST
        self._record.note_loss(await self._find_out(op, why, before))

    async def _find_out(self, op: FenceOp, why: str | None, before: str) -> bool:
        """Learn from the fence whether an attempt had begun that did not report so."""
        run, recorder, record = self._run, self._recorder, self._record
        answer = await record.ask(op, why=why)
        if answer.gate.over:
            raise Overtaken(answer.state)
        standing, view = run.today(answer.state), answer.effect or EffectView()
        begun = view.attempts > record.known.effect.attempts
        if self._ended_in_then(view, standing):
            self._moved = self._follows
            recorder.show(standing or run.state)
            self.acted()
        elif view.in_doubt and standing == before != run.state:
            # What is on record now is a doubt, in place of a record that was lost together with the state.
            await recorder.move_here()
            self.acted()
        elif standing is not None and standing != run.state and not begun:
            recorder.show(self._back(before))
        elif (begun or op is FenceOp.LOST) and (view.in_doubt or not record.repeats):
            self.acted()  # else an earlier run has begun and settled it
        if begun:
            self._count(view.status.value)
        record.see(view, answer)
        return begun

    def _ended_in_then(self, view: EffectView | None, standing: str | None) -> bool:
        """Whether an attempt that gave no answer was done, and the state that follows was committed with it."""
        done = view is not None and view.status is EffectStatus.DONE
        return done and self._follows is not None and standing == self._follows.state

    def _back(self, before: str) -> str:
        """The state after an attempt that was not begun: the one before it, unless something else moved it since."""
        return before if self._run.state == self._shown else self._run.state

    def _count(self, outcome: str) -> None:
        """An attempt has ended."""
        lifecycle, effect = self._run.entity.lifecycle, self._record.effect.name
        metrics.count(workflow.metric_meter(), names.ATTEMPTS, lifecycle=lifecycle, effect=effect, outcome=outcome)
