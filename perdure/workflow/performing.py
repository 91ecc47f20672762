"""One call of `perform`: the loop that asks `decide` what to do next, does it, and learns from it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar, assert_never

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutError, TimeoutType

from perdure.activity.orders import AttemptOrder, QuestionOrder, Report, Said
from perdure.contracts.effects import Effect, Find
from perdure.contracts.keys import Key
from perdure.contracts.outcomes import Abandoned, DifferentInput, Done, Ended, Expired, GaveUp, Status, WasRefused
from perdure.contracts.policies import Lookup
from perdure.errors import DeclarationError
from perdure.store.writes import Answer, EffectView, Fence, FenceOp, Gate, Move, Write, storable
from perdure.telemetry import metrics, names, traces
from perdure.workflow.carried import HowEnded, Unsettled
from perdure.workflow.conduct import Conductor
from perdure.workflow.decision import Again, Ask, Known, Look, Park, Record, Settled, decide
from perdure.workflow.leaving import Leave, Overtaken, Renewal
from perdure.workflow.reading import read
from perdure.workflow.requests import Resolution
from perdure.workflow.status import EffectStatus

In = TypeVar("In")
Out = TypeVar("Out")

BOOKKEEPING = timedelta(seconds=12)
"""What an activity is given beyond its call: to commit before it and after it."""

_LOOK_UP_WAITS = timedelta(minutes=5), timedelta(seconds=5)
"""How long a look-up may wait for a worker, and after which silence that worker counts as lost."""

_ONCE = RetryPolicy(maximum_attempts=1)
_ENDINGS: dict[str, type[Ended]] = {
    kind.__name__: kind for kind in (WasRefused, Expired, Abandoned, GaveUp, DifferentInput)
}


class Performance(Generic[In, Out]):
    """One effect being performed."""

    def __init__(self, conductor: Conductor, effect: Effect[In, Out], given: In, suffix: str | None) -> None:
        self.effect = effect
        self.slot = f"{effect.name}/{suffix}" if suffix else effect.name
        # The way that this run calls it: the one that stands in its history, whatever the contract says today.
        begun_with = conductor.terms.get(effect.identity)
        self._name = begun_with.name if begun_with else effect.identity
        self._inline = begun_with.inline if begun_with else effect.inline
        self.parked = False
        self.hurry = False
        self.poked = False
        """A late outcome came in: the fence knows more."""
        self.resolution: Resolution | None = None
        self.resolved: str | None = None
        self.next_at: datetime | None = None
        self._conductor = conductor
        self._input = effect.dump_input(given)
        again = conductor.again.get(self.slot, 0)
        self.key = Key.of(conductor.entity, effect.identity, suffix, again)
        if self.slot in conductor.refused:
            conductor.refused.discard(self.slot)
            conductor.ended.pop(self.key, None)
            conductor.again[self.slot] = again + 1
            self.key = Key.of(conductor.entity, effect.identity, suffix, again + 1)
        # What the run before knew goes on: its failures count, its doubt needs no second look at the fence.
        left = conductor.unsettled.pop(self.key, None) or Unsettled(known=Known())
        self.known = replace(left.known, terms=left.known.terms or begun_with)
        self._seen_at = workflow.now() - left.known.age
        self._progress = left.progress
        self._then: str | None = None
        self._moved: Move | None = None
        """What was committed with the outcome."""

    async def run(self, entering: str | None, then: str | None, expires_at: datetime | None) -> Done[Out] | Ended:
        """Perform it until it is settled; and be in the state `then` if it is done."""
        if then is not None and not self._conductor.catching_up:  # said before anything is sent
            self._conductor.check_move(then, entering)
        self._then = then
        end = await self._run(entering, expires_at)
        if then is not None and isinstance(end, Done) and not self._is_in(then):
            await self._conductor.enter(then, None)
        return end

    def _is_in(self, then: str) -> bool:
        """Whether that was committed with the outcome, with what the lifecycle remembers now."""
        conductor, moved = self._conductor, self._moved
        return moved is not None and conductor.state == then and (moved.final or moved == conductor.move_to(then))

    async def _run(self, entering: str | None, expires_at: datetime | None) -> Done[Out] | Ended:
        conductor = self._conductor
        if self.key in conductor.performances:
            raise DeclarationError(f"{self.key} is being performed already: give one of them another suffix")
        if conductor.catching_up and (ended := conductor.ended.get(self.key)):
            if ended.kind == WasRefused.__name__:
                conductor.refused.add(self.slot)
            return _ENDINGS[ended.kind](ended.why, ended.in_doubt)
        conductor.ended.pop(self.key, None)
        conductor.performances[self.key] = self
        about = {names.LIFECYCLE: conductor.entity.lifecycle, names.EFFECT: self.effect.name}
        try:
            with traces.span_in_workflow(f"{names.SPAN_PERFORM} {self.effect.name}", about, Leave):
                return await self._settle(entering, expires_at)
        except Renewal:
            conductor.unsettled[self.key] = self.unsettled()
            raise
        finally:
            del conductor.performances[self.key]

    def status(self) -> EffectStatus:
        """Where it is, as the query `status` shows it."""
        view = self.known.effect
        return EffectStatus(
            effect=self.slot,
            key=self.key,
            status=view.status,
            attempts=view.attempts,
            parked=self.parked,
            why=view.why,
            next_at=self.next_at,
        )

    def unsettled(self) -> Unsettled:
        """What the next run must know of it."""
        known = replace(self.known, age=workflow.now() - self._seen_at, terms=None)  # a new run takes today's
        return Unsettled(known=known, progress=self._progress)

    async def _settle(self, entering: str | None, expires_at: datetime | None) -> Done[Out] | Ended:
        while True:
            luck = workflow.random().uniform(-1, 1) if self.known.failures else 0.0
            now = workflow.now()
            known = replace(self.known, age=now - self._seen_at)
            step = decide(self.effect, known, now=now, expires_at=expires_at, luck=luck)
            match step:
                case Again(pause):
                    if await self._wait(pause, expires_at):
                        await self._attempt(entering)
                case Ask(pause):
                    if await self._wait(pause, expires_at, cancellable=False):
                        await self._ask()
                case Look(pause):
                    if await self._wait(pause, expires_at, cancellable=False):
                        await self._read()
                case Record(why):
                    await self._record(Status.NOT_DONE, why)
                case Park(pause):
                    if await self._wait(pause, expires_at, cancellable=False):
                        await self._park(expires_at)
                case Settled():
                    return self._end(step)
                case _:
                    assert_never(step)

    async def _wait(self, pause: timedelta, expires_at: datetime | None, *, cancellable: bool = True) -> bool:
        """Pause; False if the time that the effect is of use ended first, so that `decide` has the word."""
        now = workflow.now()
        end = now + pause if expires_at is None else min(now + pause, expires_at)
        self.next_at = end
        await self._conductor.pause(
            (end - now).total_seconds(),
            self._roused,
            cancellable=cancellable,
            summary=f"{self.slot}: next step",
        )
        roused, self.hurry, self.next_at = self._roused(), False, None
        if self.poked:
            await self._read()
            return False
        return roused or expires_at is None or workflow.now() < expires_at

    def _roused(self) -> bool:
        return self.hurry or self.poked

    async def _attempt(self, entering: str | None) -> None:
        conductor = self._conductor
        before = conductor.state
        move = self._entering(entering)
        fence = self._fence(FenceOp.BEGIN, after=self.known.effect.token)
        order = AttemptOrder(
            write=conductor.order(move=move, fence=fence),
            input=self._input,
            number=self.known.effect.attempts + 1,
            timeout=self.effect.timeout.total_seconds(),
            progress=self._progress,
            then=self._with_outcome(),
        )
        conductor.in_flight += 1
        try:
            report = await self._call(
                self.effect, order, f"{self.slot}: attempt {order.number}", self._name, inline=self._inline
            )
        except (ActivityError, ApplicationError) as failure:
            await self._lost(failure, before)
            return
        finally:
            conductor.in_flight -= 1
        self._moved = order.then.move if order.then and report.moved else None
        await self._learn(report, before)

    def _entering(self, entering: str | None) -> Move | None:
        conductor = self._conductor
        if entering is None or entering == conductor.state:
            return None
        if conductor.catching_up and not conductor.states.allows(conductor.state, entering):
            return None
        conductor.check_move(entering)
        conductor.show(entering)
        return conductor.move_to(entering)

    def _with_outcome(self) -> Write | None:
        """What is committed with the outcome, if it is done: the state that was declared beforehand. One that the run
        would only choose afterwards never is. Not beside others: an end would take the ground from under them."""
        conductor, then = self._conductor, self._then
        if then is None or len(conductor.performances) > 1 or not conductor.states.allows(conductor.state, then):
            return None
        return conductor.order(move=conductor.move_to(then))

    async def _learn(self, report: Report, before: str) -> None:
        conductor = self._conductor
        conductor.learn(report.version)
        self._progress = report.progress if report.progress is not None else self._progress
        if report.said is Said.OVER:
            raise Overtaken(report.state)
        standing = self._today(report.state)
        # A record that stands was made together with the state: by another execution of this attempt, by the run
        # that this one is a reset of, or by an earlier `perform`.
        stands = report.effect is not None and not conductor.catching_up
        entered = report.begun or stands or standing == conductor.state
        state = conductor.state if entered else before
        if not report.recorded:
            # Its own commit failed: the fence must know before anything else is decided.
            answer = await conductor.write(
                conductor.order(
                    fence=self._fence(
                        FenceOp.OUTCOME,
                        token=report.token,
                        status=Status(report.said.value),
                        receipt=report.receipt,
                        why=storable(report.why),
                    )
                )
            )
            state = self._today(answer.state) or state
            self._see(answer.effect or EffectView(token=report.token), answer)
        else:
            self._see(report.effect or self.known.effect, report)
        conductor.show(self._moved.state if self._moved else state)
        if not report.begun and standing not in (None, state) and state != before:
            await conductor.write(conductor.order(move=conductor.move_to(state)))
        if report.begun:
            conductor.acted()
            self._count(report.said.value)
        if report.said is not Said.STANDING:
            self.known = replace(self.known, failures=self.known.failures + 1)
        self.known = replace(
            self.known.settled(),
            retry_after=timedelta(seconds=report.retry_after) if report.retry_after else None,
            different=report.said is Said.DIFFERENT,
        )

    async def _lost(self, failure: BaseException, before: str) -> None:
        """The activity gave no answer. The fence knows whether anything can have left (invariant 2)."""
        cause = failure.__cause__ if isinstance(failure, ActivityError) else failure
        why = "its worker was lost"
        if isinstance(cause, TimeoutError):
            if cause.type is TimeoutType.SCHEDULE_TO_START:
                self._conductor.show(before)
                self.known = replace(self.known, failures=self.known.failures + 1)
                return
            why = f"its worker was lost ({cause.type.name.lower() if cause.type else 'time-out'})"
            if cause.last_heartbeat_details:
                self._progress = cause.last_heartbeat_details[0]
        conductor = self._conductor
        answer = await conductor.write(conductor.order(fence=self._fence(FenceOp.LOST, why=why)))
        if answer.gate in (Gate.FINAL, Gate.OTHER_ROUND):
            raise Overtaken(answer.state)
        if answer.state is not None and self._today(answer.state) != conductor.state:
            conductor.show(before)
        else:
            conductor.acted()
        if answer.effect is not None and answer.effect.attempts > self.known.effect.attempts:
            self._count(answer.effect.status.value)
        self._see(answer.effect or EffectView(), answer)
        self.known = replace(self.known.settled(), failures=self.known.failures + 1, retry_after=None)

    async def _ask(self) -> None:
        policy = (self.known.terms or self.effect).doubt
        assert isinstance(policy, Lookup)
        order = QuestionOrder(
            write=self._conductor.order(fence=self._fence(FenceOp.READ)),
            input=self._input,
            settle=policy.settle.total_seconds(),
            timeout=policy.find.timeout.total_seconds(),
        )
        known = self.known
        try:
            what = f"{self.slot}: look-up {known.asked + 1}"
            report = await self._call(policy.find, order, what, policy.find.name, inline=policy.find.inline)
        except (ActivityError, ApplicationError):
            report = Report(said=Said.MUTE, token="", why="its worker was lost")
        self._conductor.learn(report.version)
        if report.effect is not None:
            self._see(report.effect, report)
        if answered := _answer(report):
            lifecycle = self._conductor.entity.lifecycle
            metrics.count(
                workflow.metric_meter(), names.LOOK_UPS, lifecycle=lifecycle, find=policy.find.name, answer=answered
            )
        mute = known.mute + 1 if report.said is Said.MUTE else 0
        misses = known.misses + 1 if report.said is Said.MISS and report.believable else known.misses
        self.known = replace(self.known, asked=known.asked + 1, mute=mute, misses=misses)
        if report.said is Said.DONE and not report.recorded:
            await self._record(Status.DONE, "found by the look-up", receipt=report.receipt, by="look-up")

    async def _record(self, status: Status, why: str, *, receipt: Any = None, by: str | None = None) -> None:
        """Compare-and-set on the token that was read: whatever came in meanwhile stands."""
        fence = self._fence(FenceOp.RESOLVE, status=status, receipt=receipt, why=storable(why), by=storable(by))
        answer = await self._conductor.write(self._conductor.order(fence=fence))
        self._see(answer.effect or EffectView(), answer)
        self.known = self.known.settled()

    async def _read(self, op: FenceOp = FenceOp.READ, **more: Any) -> None:
        """Read the fence again, as every policy does before it repeats or escalates."""
        self.poked = False
        answer = await self._conductor.write(self._conductor.order(fence=self._fence(op, **more)))
        self._see(answer.effect or EffectView(), answer)

    async def _park(self, expires_at: datetime | None) -> None:
        # Not only read: of an inline attempt nobody has said yet that it is lost, so its late `done` would wake nobody.
        await self._read(FenceOp.LOST, why="no word of how it ended")
        if self.known.effect.status not in (Status.ATTEMPTING, Status.IN_DOUBT) or self.known.effect.in_flight > 0:
            return
        conductor = self._conductor
        conductor.attention = f"{self.slot} is in doubt: {self.known.effect.why or 'no word of how it ended'}"
        await conductor.write(conductor.order(move=conductor.move_to(conductor.state, conductor.attention)))
        conductor.acted()
        self.parked = True
        try:
            left = None if expires_at is None else (expires_at - workflow.now()).total_seconds()
            await conductor.pause(
                left,
                lambda: self.resolution is not None or self.poked,
                cancellable=False,  # an end now would leave the doubt to nobody
                summary=f"{self.slot}: parked",
            )
        finally:
            self.parked = False
            conductor.attention = None
        await self._unpark()

    async def _unpark(self) -> None:
        conductor, said = self._conductor, self.resolution
        if said is None:
            await self._read()
            return
        fence = self._fence(
            FenceOp.RESOLVE,
            status=said.outcome,
            receipt=said.receipt,
            why=storable(said.note),
            by=storable(said.by),
        )
        move = conductor.move_to(conductor.state, f"{self.slot} resolved as {said.outcome}: {said.note}", said.by)
        answer = await conductor.write(conductor.order(fence=fence, move=move))
        self._see(answer.effect or EffectView(), answer)
        status = self.known.effect.status
        self.resolved = (
            f"resolved as {status}" if status is said.outcome else f"too late: it had become {status} meanwhile"
        )
        self.resolution = None
        self.known = replace(self.known.settled(), failures=0)

    def _end(self, settled: Settled) -> Done[Out] | Ended:
        conductor, view = self._conductor, self.known.effect
        if settled.status is Status.DONE:
            return Done(self._receipt(view.receipt))
        doubt = settled.status in (Status.ATTEMPTING, Status.IN_DOUBT)
        ended: Ended
        if settled.expired:
            ended = Expired("it was of no use any more" + (", and in doubt" if doubt else ""), doubt)
        elif settled.gave_up:
            ended = GaveUp(f"{self.known.failures} attempts failed, the last: {view.why or 'never handed out'}")
        elif settled.different:
            ended = DifferentInput("an earlier attempt under this key had another input", doubt)
        elif settled.status is Status.ABANDONED:
            ended = Abandoned(view.why or "abandoned")
        else:
            ended = WasRefused(view.why or "refused")
            conductor.refused.add(self.slot)
        conductor.ended[self.key] = HowEnded(
            slot=self.slot, kind=type(ended).__name__, why=ended.why, in_doubt=ended.in_doubt
        )
        return ended

    def _receipt(self, data: Any) -> Out:
        return read(self._conductor, f"the receipt of {self.slot}", lambda: self.effect.receipt.validate_python(data))

    def _see(self, view: EffectView, said: Report | Answer) -> None:
        """Learn what the fence knows, and the terms of the worker that read it."""
        of_each = said.terms or {} if isinstance(said, Answer) else {self.effect.identity: said.terms}
        terms = of_each.get(self.effect.identity)
        self.known = replace(self.known, effect=view, terms=terms or self.known.terms)
        self._seen_at = workflow.now()

    def _today(self, state: str | None) -> str | None:
        return None if state is None else self._conductor.states.today(state)

    def _count(self, outcome: str) -> None:
        """An attempt has ended."""
        lifecycle = self._conductor.entity.lifecycle
        metrics.count(
            workflow.metric_meter(), names.ATTEMPTS, lifecycle=lifecycle, effect=self.effect.name, outcome=outcome
        )

    def _fence(self, op: FenceOp, *, token: str | None = None, **more: Any) -> Fence:
        return Fence(op=op, key=self.key, effect=self.slot, token=token or self.known.effect.token or "", **more)

    async def _call(
        self, contract: Effect[In, Out] | Find[In, Out], order: Any, summary: str, name: str, *, inline: bool
    ) -> Report:
        self._conductor.describe()
        whole = contract.timeout + BOOKKEEPING
        if inline:
            local: Report = await workflow.execute_local_activity(
                name,
                order,
                result_type=Report,
                start_to_close_timeout=whole,
                retry_policy=_ONCE,
                summary=summary,
            )
            return local
        waits = (contract.pick_up, contract.heartbeat) if isinstance(contract, Effect) else _LOOK_UP_WAITS
        report: Report = await workflow.execute_activity(
            name,
            order,
            result_type=Report,
            task_queue=contract.task_queue,
            schedule_to_start_timeout=waits[0],
            start_to_close_timeout=whole,
            heartbeat_timeout=waits[1],
            retry_policy=_ONCE,
            summary=summary,
        )
        return report


def _answer(report: Report) -> str | None:
    """In what a look-up ended, as the metric says it; None if nobody was asked."""
    if report.said is Said.MISS:
        return "miss" if report.believable else "early"
    return {Said.DONE: "hit", Said.MUTE: "mute"}.get(report.said)
