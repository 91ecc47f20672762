"""The attempts of one performance: orders each attempt, with the move to commit beside it, and evaluates its end, which
may be a report or silence."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, CancelledError, TimeoutError, TimeoutType

from perdure._text.shown import markdown
from perdure._wire.orders import AttemptOrder, CallResult, Report
from perdure._wire.writes import EffectView, FenceOp, Move, Write, storable
from perdure._workflow.calling import NO_ANSWER, InLine, Way, call
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
        then: the state to enter if the effect is done.

    Attributes:
        waited: whether an attempt was ordered as an activity whose end no earlier answer decided. In a workflow task
            that was lost, the record or a look-up may have given another answer, which ended the effect.
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
        self.waited: bool = False
        self.begun: bool = False
        """Whether an attempt has begun in this run."""
        self._within: float | None = None
        """Limit for the begin of the last attempt, in seconds after the first attempt in doubt; None = no limit."""
        self._shown: str | None = None
        """The state to enter with the record of the last attempt."""
        self._may_enter = False
        """Whether an attempt of this run was allowed to enter its state."""
        self._ordered_at = 0
        """Version of the write that begins the last attempt."""
        self._before = self._made = run.standing
        """Where the run was before that, and where it is shown to be since then."""
        self._follows: Move | None = None
        """The move to commit with the outcome of the last attempt, if the effect is done."""
        self._follows_at = 0
        """Version of the write with that move."""
        self._moved: Move | None = None
        """The move that was committed with the outcome."""
        self._in_line: InLine | None = None
        """The last attempt, which may still wait for its turn."""

    def check(self) -> None:
        """Check `then` once, from the state of the first attempt, before anything is sent. An effect that is done must
        not fail the run."""
        if self._run.requests.stopped:  # no attempt begins before the end
            return
        origin = self._enters or (None if self._run.catching_up else self._run.state)
        if self._then is not None and origin is not None and not self._run.has_passed(self._then):
            self._run.check_move(origin, self._then)

    async def make(self, within: timedelta | None) -> None:
        """Make one attempt, and wait for a report or for its loss.

        Args:
            within: the longest time between the begin of the first attempt in doubt and the begin of this one.

        Raises:
            Overtaken: the database has reported that the entity is over.
        """
        order = self._order(within)
        record = self._record
        way = Way(record.name, record.inline, record.limited, record.timeout, self._expires_at, self._wait_in_line)
        if not self._record.inline and not self._record.asked:
            self.waited = True
        try:
            async with self._recorder.under_way(order.write if order.write.move else None):
                self._recorder.describe()
                summary = markdown(f"{self._record.slot}: attempt {order.number}")
                report = await call(self._record.effect, order, way, self._run.events, summary)
        except NO_ANSWER as failure:
            await self._lost(failure)
            return
        except asyncio.CancelledError as failure:
            task = asyncio.current_task()
            if self._in_line is None or task is None or task.cancelling():
                raise
            await self._lost(failure)  # the attempt was taken back when its end came in
            return
        finally:
            self._in_line = None
        await self._learn(report)

    def take_back(self) -> None:
        """The end was requested: an attempt that waits for its turn does not begin any more, unless it settles a
        doubt."""
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
        refused_later = view.in_doubt and known.effect.status is EffectStatus.NOT_DONE
        if refused_later and op is not FenceOp.RESOLVE:  # as in `_lost`
            record.note(spared=min(known.spared + 1, known.failures))
        begun, standing, enters = known.effect.attempts > view.attempts, run.today(answer.state), self._enters
        if not begun or standing is None or enters is None or not (record.is_new or standing == enters):
            return
        if run.requests.stopped:  # the state on record is that of `cancelling`, or of a handler
            return
        # A lost workflow task committed this state with the record. If an earlier run has performed the effect, only
        # the mirror can show that. The state is written again if this run has shown an earlier state since.
        if run.declared.allows(run.state, enters):
            begun_at = known.effect.version if op is FenceOp.READ else 0  # the other writes have raised it
            if standing in (run.state, enters) and self._recorder.overwrites(begun_at):
                await self._recorder.move(enters)
            self._recorder.show(enters)

    async def settle(self, status: EffectStatus, why: str, *, receipt: Any = None, by: str | None = None) -> None:
        """Record `status` by compare-and-set on the token that was read. A record that changed meanwhile stands."""
        await self.read(FenceOp.RESOLVE, status=status, receipt=receipt, why=storable(why), by=storable(by))
        self._record.known = self._record.known.settled()

    def hides(self) -> bool:
        """Whether an attempt has entered its state, and the mirror shows an earlier state: a workflow task that was
        lost made the attempt, the next task wrote the earlier state, and then Temporal lost the history."""
        entered, declared, state = self._enters, self._run.declared, self._run.state
        if entered is None or not self._record.known.effect.attempts:
            return False
        if state == entered or not declared.allows(state, entered):
            return False
        return not declared.leads(entered, state)

    def has_followed(self) -> bool:
        """Whether `then` was committed with the outcome, together with the present snapshot and memory."""
        moved, then = self._moved, self._then
        if moved is None or then is None or self._run.state != then:
            return False
        if self.is_overwritten():
            return False
        now = self._recorder.move_to
        return moved.final or moved == now(then).model_copy(update={"memory": moved.memory})

    def is_overwritten(self) -> bool:
        """Whether a write, or an attempt, that was ordered later shows another state."""
        moved, recorder = self._moved, self._recorder
        later = max(recorder.last_move, recorder.last_entering) > self._follows_at
        return moved is not None and not moved.final and later

    def show_without_then(self) -> None:
        """The database has lost the outcome, and `then` with it: show the state of the attempt again."""
        if self._moved is not None and self._run.state == self._moved.state:
            self._recorder.show_again(self._made)
        self._moved = None

    def acted(self) -> None:
        """The effect has brought the run further than the previous run, unless it only repeats an effect of that
        run."""
        self.begun = True
        if not self._record.is_behind:
            self._recorder.acted()

    def _order(self, within: timedelta | None) -> AttemptOrder:
        record = self._record
        own = record.own.doubt if record.own else None
        self._before = self._run.standing
        move = self._entering()
        self._made = self._run.standing
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
            gives_way=isinstance(own, (Repeat, Dedupe)) if own else None,
            expires_at=self._expires_at,
        )
        check_size(self._run.entity, f"an attempt of {record.slot}", order)
        self._ordered_at = order.write.version
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
        was_there = run.branch_catches_up or run.has_passed(entering) or self._record.known.effect.attempts > 0
        leads_on = run.declared.allows(run.state, entering) if self._record.goes_on else run.leads_on(entering)
        if was_there and not leads_on:
            return None
        if not self._may_enter:  # later the run may have gone back from a state that another branch had entered
            run.check_move(run.state, entering)
            self._may_enter = True
        if run.declared[entering].final:
            raise DeclarationError(
                f"{self._record.key}: entering={entering!r} is a final state: it can only follow, by then="
            )
        self._recorder.show(entering)
        return self._recorder.move_to(entering)

    def _with_outcome(self) -> Write | None:
        """The write to commit with the outcome, if the effect is done: the state that was declared beforehand. None
        beside other effects under way, because an end would leave them without an entity."""
        run, then = self._run, self._then
        alone = len(run.effects.performances) == 1 and not run.effects.doubts_left
        if then is None or not alone or not run.declared.allows(run.state, then):
            return None
        return self._recorder.order(move=self._recorder.move_to(then))

    async def _learn(self, report: Report) -> None:
        run, recorder, record = self._run, self._recorder, self._record
        run.learn(report.version)
        if report.progress is not None:
            record.take_progress(report.progress)
        if report.result is CallResult.OVER:
            raise Overtaken(report.state)
        standing = run.today(report.state)
        # A standing record was committed with the state: by another execution of this attempt, by the run before a
        # reset, or by an earlier `perform`.
        stands = report.effect is not None and record.is_new
        entered = report.begun or stands or standing == run.state
        if not report.recorded:
            state = await self._put_on_record(report, entered)
        elif report.effect is None:
            # An earlier execution may have begun an attempt. Only the fence can show that.
            await self._find_out(FenceOp.READ, None)
            state = run.state
        else:
            state = self._after(entered)
            record.see(report.effect, report)
        if report.moved or self._ended_in_then(report.effect, standing):
            self._moved = self._follows
        elif stands:  # a lost workflow task made the attempt, and a message came before this one
            state = await self._show_over(state)
        # While an end is being written, `then` is not shown: the end holds, or the effect enters `then` once more.
        self._show(self._moved.state if self._moved and not run.final else state)
        if not self._moved and not report.begun and standing not in (None, state) and state != self._before.state:
            await recorder.move(state)
        elif not self._moved and report.late and self._shown == state != self._before.state:
            await recorder.move_again(state)
        elif not self._moved:
            await self._write_back(state)
        if report.begun:
            if report.effect is not None and report.effect.attempts == 1:
                run.effects.goes_first()
            self.acted()
            self._count(report.result.value)
        record.note_end(report)

    async def _put_on_record(self, report: Report, entered: bool) -> str:
        """Record an outcome that the activity could not commit, before anything else is decided. Returns the state."""
        run, record = self._run, self._record
        answer = await record.ask(
            FenceOp.OUTCOME,
            token=report.token,
            within=self._within,
            status=EffectStatus(report.result.value),
            receipt=report.receipt,
            why=storable(report.why),
        )
        if answer.gate.over:
            raise Overtaken(answer.state)
        state = self._after(entered)  # not before the answer: another attempt may have gone back meanwhile
        # A lost workflow task entered a later state. This run will enter that state too. If another branch has entered
        # a state meanwhile, that state holds.
        known = run.today(answer.state)
        if known is not None and self._holds() and known in (self._before.state, self._shown):
            state = known
        elif answer.effect is not None and answer.effect.attempts:  # its state was committed with its record
            state = run.state
        record.see(answer.effect or EffectView(token=report.token), answer)
        return await self._show_over(state)

    async def _show_over(self, state: str) -> str:
        """Write the state of an attempt again if another write of this run shows the earlier state, or will. Returns
        the state then: another branch may enter one meanwhile."""
        if state == self._shown != self._before.state and self._recorder.overwrites(self._record.known.effect.version):
            await self._recorder.move(state)
            return self._run.state
        return state

    async def _lost(self, failure: BaseException) -> None:
        """The activity gave no answer. The fence shows whether a request can have left (invariant 2)."""
        cause = failure.__cause__ if isinstance(failure, ActivityError) else failure
        why = "its worker was lost"
        if isinstance(cause, TimeoutError):
            if cause.type is TimeoutType.SCHEDULE_TO_START:
                await self._go_back()
                self._record.note(unmade=True)
                return
            why = f"its worker was lost ({cause.type.name.lower() if cause.type else 'time-out'})"
            if cause.last_heartbeat_details:
                self._record.take_progress(cause.last_heartbeat_details[0])
        # An attempt that was taken back from its line never began: nothing is lost.
        op = FenceOp.READ if isinstance(cause, CancelledError) else FenceOp.LOST
        self._record.note_loss(await self._find_out(op, why))

    async def _find_out(self, op: FenceOp, why: str | None) -> bool:
        """Read from the fence whether an attempt without a report had begun."""
        run, recorder, record = self._run, self._recorder, self._record
        answer = await record.ask(op, why=why)
        if answer.gate.over:
            raise Overtaken(answer.state)
        before, standing, view = self._before.state, run.today(answer.state), answer.effect or EffectView()
        begun = view.attempts > record.known.effect.attempts
        if self._ended_in_then(view, standing):
            self._moved = self._follows
            if not run.final:
                recorder.show(standing or run.state)
            self.acted()
        elif (view.in_doubt or (begun and record.is_new)) and standing == before != run.state:
            # The present record is a doubt, in place of a record that was lost together with the state. Or a lost
            # workflow task had entered the state, and this run has shown an earlier one since.
            await recorder.move_here()
            self.acted()
        elif standing not in (None, run.state) and (not begun or (standing == before and not record.is_new)):
            # The record may be that of an earlier performance, whose attempt did not enter this state.
            await self._go_back()
        elif (begun or op is FenceOp.LOST) and (view.in_doubt or not record.repeats):
            self.acted()  # else an earlier run has begun and settled the effect
        if begun:
            self._count(view.status.value)
        record.see(view, answer)
        return begun

    def _ended_in_then(self, view: EffectView | None, standing: str | None) -> bool:
        """Whether an attempt without an answer was done, and its `then` was committed with the outcome."""
        done = view is not None and view.status is EffectStatus.DONE
        return done and self._follows is not None and standing == self._follows.state

    def _after(self, entered: bool) -> str:
        """The state after an attempt that has `entered` its state, or has not."""
        return self._run.state if entered else self._back()

    def _back(self) -> str:
        """The state after an attempt that did not begin: the earlier state, unless another move was made since."""
        if self._holds():
            return self._before.state
        if self._shown is not None:  # that move may be undone too, and must not go back to a state that was not entered
            self._made.become(self._before)
        return self._run.state

    def _holds(self) -> bool:
        """Whether the move of the attempt is the last one. Another branch may have entered the same state since."""
        return self._shown is not None and self._run.standing is self._made

    def _show(self, state: str) -> None:
        """Show the state after an attempt. If that is the earlier one, no move was made."""
        if state == self._before.state:
            self._recorder.show_again(self._before)
        else:
            self._recorder.show(state)

    async def _go_back(self) -> None:
        """Show the state after an attempt that did not begin, and write it again if that is necessary."""
        self._show(state := self._back())
        await self._write_back(state)

    async def _write_back(self, state: str) -> None:
        """Write `state` again if it is the one before an attempt that did not begin: a write of another branch, which
        was ordered meanwhile, shows the state of the attempt."""
        went_back = self._shown is not None and state == self._before.state != self._shown
        if went_back and self._recorder.last_move > self._ordered_at:
            await self._recorder.move(state)

    def _count(self, outcome: str) -> None:
        """Count an attempt that has ended."""
        lifecycle, effect = self._run.entity.lifecycle, self._record.effect.name
        metrics.count(workflow.metric_meter(), names.ATTEMPTS, lifecycle=lifecycle, effect=effect, outcome=outcome)
