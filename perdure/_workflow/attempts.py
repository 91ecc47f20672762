"""The attempts of one performance: orders each attempt, and evaluates its end, which may be a report or silence."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, CancelledError, TimeoutError, TimeoutType

from perdure._text.shown import markdown
from perdure._wire.orders import AttemptOrder, CallResult, Report
from perdure._wire.writes import EffectView, FenceOp, storable
from perdure._workflow.attempt_moves import AttemptMoves
from perdure._workflow.calling import NO_ANSWER, InLine, Way, call
from perdure._workflow.effect_record import EffectRecord
from perdure._workflow.fitting import check_size
from perdure._workflow.leaving import Overtaken
from perdure._workflow.recorder import Recorder
from perdure._workflow.run_state import RunState
from perdure.contracts.outcomes import EffectStatus
from perdure.contracts.policies import Dedupe, Repeat
from perdure.telemetry import metrics, names

DONE_BEFORE = "perdure: a lost attempt of an effect that was done before is no progress"

In = TypeVar("In")
Out = TypeVar("Out")


class Attempts(Generic[In, Out]):
    """Makes the attempts of one performance, one after the other.

    Args:
        moves: those beside the attempts.
        expires_at: no attempt begins after this time.

    Attributes:
        waited: whether an attempt was ordered as an activity whose end no earlier answer decided. In a workflow task
            that was lost, the record or a look-up may have given another answer, which ended the effect.
    """

    def __init__(
        self,
        run: RunState,
        recorder: Recorder,
        record: EffectRecord[In, Out],
        moves: AttemptMoves,
        *,
        expires_at: datetime | None,
    ) -> None:
        self._run = run
        self._recorder = recorder
        self._record = record
        self._moves = moves
        self._expires_at = expires_at
        self.waited: bool = False
        self.begun: bool = False
        """Whether an attempt has begun in this run."""
        self._within: float | None = None
        """Limit for the begin of the last attempt, in seconds after the first attempt in doubt; None = no limit."""
        self._in_line: InLine | None = None
        """The last attempt, which may still wait for its turn."""

    async def make(self, within: timedelta | None) -> None:
        """Make one attempt, and wait for a report or for its loss.

        Args:
            within: the longest time between the begin of the first attempt in doubt and the begin of this one.

        Raises:
            Overtaken: the database has reported that the entity is over.
        """
        await self._moves.until_others_begin()
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
        if known.effect.attempts > view.attempts:
            begun_at = known.effect.version if op is FenceOp.READ else 0  # the other writes have raised it
            await self._moves.show_entered(run.today(answer.state), begun_at)

    async def settle(self, status: EffectStatus, why: str, *, receipt: Any = None, by: str | None = None) -> None:
        """Record `status` by compare-and-set on the token that was read. A record that changed meanwhile stands."""
        await self.read(FenceOp.RESOLVE, status=status, receipt=receipt, why=storable(why), by=storable(by))
        self._record.known = self._record.known.settled()

    def acted(self) -> None:
        """The effect has brought the run further than the previous run, unless it only repeats an effect of that
        run."""
        self.begun = True
        if not self._record.is_behind:
            self._recorder.acted()

    def _order(self, within: timedelta | None) -> AttemptOrder:
        record = self._record
        own = record.own.doubt if record.own else None
        move = self._moves.begin()
        self._within = None if within is None else within.total_seconds()
        fence = record.fence(FenceOp.BEGIN, after=record.known.effect.token, within=self._within)
        begin = self._recorder.order(move=move, fence=fence)
        order = AttemptOrder(
            write=begin,
            input=record.input,
            number=record.known.effect.attempts + 1,
            timeout=record.timeout.total_seconds(),
            progress=record.progress,
            then=self._moves.follow(begin),
            gives_way=isinstance(own, (Repeat, Dedupe)) if own else None,
            expires_at=self._expires_at,
        )
        check_size(self._run.entity, f"an attempt of {record.slot}", order)
        return order

    def _wait_in_line(self, attempt: InLine) -> None:
        self._in_line = attempt

    async def _learn(self, report: Report) -> None:
        run, moves, record = self._run, self._moves, self._record
        run.learn(report.version)
        if report.progress is not None:
            record.take_progress(report.progress)
        if report.result is CallResult.OVER:
            raise Overtaken(report.state)
        # A standing record was committed with the state: by another execution of this attempt, by the run before a
        # reset, or by an earlier `perform`.
        stands = report.effect is not None and record.is_new
        entered = report.begun or stands or run.today(report.state) == run.state
        if not report.recorded:
            state = await self._put_on_record(report, entered)
        elif report.effect is None:
            # An earlier execution may have begun an attempt. Only the fence can show that.
            await self._find_out(FenceOp.READ, None)
            state = run.state
        else:
            state = moves.after(entered)
            record.see(report.effect, report)
        await moves.show_end(report, state, stands=stands)
        if report.begun:
            if report.effect is not None and report.effect.attempts == 1:
                run.effects.goes_first()
            self.acted()
            self._count(report.result.value)
        record.note_end(report)

    async def _put_on_record(self, report: Report, entered: bool) -> str:
        """Record an outcome that the activity could not commit, before anything else is decided. Returns the state."""
        record = self._record
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
        state = self._moves.on_record(answer, entered)
        record.see(answer.effect or EffectView(token=report.token), answer)
        return await self._moves.show_over(state)

    async def _lost(self, failure: BaseException) -> None:
        """The activity gave no answer. The fence shows whether a request can have left (invariant 2)."""
        cause = failure.__cause__ if isinstance(failure, ActivityError) else failure
        why = "its worker was lost"
        if isinstance(cause, TimeoutError):
            if cause.type is TimeoutType.SCHEDULE_TO_START:
                await self._moves.go_back()
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
        run, moves, record = self._run, self._moves, self._record
        answer = await record.ask(op, why=why)
        if answer.gate.over:
            raise Overtaken(answer.state)
        standing, view = run.today(answer.state), answer.effect or EffectView()
        begun = view.attempts > record.known.effect.attempts
        if moves.ended_in_then(view, standing):
            moves.show_then()
            if not (record.may_be_done_before and workflow.patched(DONE_BEFORE)):
                self.acted()  # else an earlier run may have gone on from there, and the branch is not past its place
        elif (view.in_doubt or (begun and record.is_new)) and moves.is_ahead_of(standing):
            # The present record is a doubt, in place of a record that was lost together with the state. Or a lost
            # workflow task had entered the state, and this run has shown an earlier one since.
            await self._recorder.move_here()
            self.acted()
        elif standing not in (None, run.state) and (not begun or (moves.is_ahead_of(standing) and not record.is_new)):
            # The record may be that of an earlier performance, whose attempt did not enter this state.
            await moves.go_back()
        elif (begun or op is FenceOp.LOST) and (view.in_doubt or not record.repeats):
            self.acted()  # else an earlier run has begun and settled the effect
        if begun:
            self._count(view.status.value)
        record.see(view, answer)
        return begun

    def _count(self, outcome: str) -> None:
        """Count an attempt that has ended."""
        lifecycle, effect = self._run.entity.lifecycle, self._record.effect.name
        metrics.count(workflow.metric_meter(), names.ATTEMPTS, lifecycle=lifecycle, effect=effect, outcome=outcome)
