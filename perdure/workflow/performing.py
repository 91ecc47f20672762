"""One call of `perform`: the loop that asks `decide` what to do next, does it, and learns from it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar, assert_never

from pydantic import ValidationError
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutError, TimeoutType

from perdure.activity.orders import AttemptOrder, QuestionOrder, Report, Said
from perdure.contracts.effects import Effect, Find
from perdure.contracts.keys import Key
from perdure.contracts.outcomes import Abandoned, DifferentInput, Done, Ended, Expired, GaveUp, Status, WasRefused
from perdure.contracts.policies import Lookup
from perdure.errors import DeclarationError
from perdure.store.writes import EffectView, Fence, FenceOp, Gate, Move, storable
from perdure.workflow.carried import HowEnded, Unsettled
from perdure.workflow.conduct import Conductor
from perdure.workflow.decision import Again, Ask, Known, Look, Park, Record, Settled, decide
from perdure.workflow.leaving import Overtaken, Renewal
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
        self.key = Key.of(conductor.entity, effect.name, suffix, again)
        if self.slot in conductor.refused:
            conductor.refused.discard(self.slot)
            conductor.ended.pop(self.key, None)
            conductor.again[self.slot] = again + 1
            self.key = Key.of(conductor.entity, effect.name, suffix, again + 1)
        # What the run before knew goes on: its failures count, its doubt needs no second look at the fence.
        left = conductor.unsettled.pop(self.key, None) or Unsettled(known=Known())
        self.known = left.known
        self._seen_at = workflow.now() - left.known.age
        self._progress = left.progress

    async def run(self, entering: str | None, expires_at: datetime | None) -> Done[Out] | Ended:
        """Perform it until it is settled."""
        conductor = self._conductor
        if self.key in conductor.performances:
            raise DeclarationError(f"{self.key} is being performed already: give one of them another suffix")
        if conductor.catching_up and (ended := conductor.ended.get(self.key)):
            if ended.kind == WasRefused.__name__:
                conductor.refused.add(self.slot)
            return _ENDINGS[ended.kind](ended.why, ended.in_doubt)
        conductor.ended.pop(self.key, None)
        conductor.performances[self.key] = self
        try:
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
        known = replace(self.known, age=workflow.now() - self._seen_at)
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
        )
        conductor.in_flight += 1
        try:
            report = await self._call(self.effect, order, f"{self.slot}: attempt {order.number}")
        except (ActivityError, ApplicationError) as failure:
            await self._lost(failure, before)
            return
        finally:
            conductor.in_flight -= 1
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

    async def _learn(self, report: Report, before: str) -> None:
        conductor = self._conductor
        conductor.learn(report.version)
        self._progress = report.progress if report.progress is not None else self._progress
        if report.said is Said.OVER:
            raise Overtaken(report.state)
        # A record that stands was made together with the state: by another execution of this attempt, by the run
        # that this one is a reset of, or by an earlier `perform`.
        stands = report.effect is not None and not conductor.catching_up
        entered = report.begun or stands or report.state == conductor.state
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
            state = answer.state or state
            self._see(answer.effect or EffectView(token=report.token))
        else:
            self._see(report.effect or self.known.effect)
        conductor.show(state)
        if not report.begun and report.state not in (None, state) and state != before:
            await conductor.write(conductor.order(move=conductor.move_to(state)))
        if report.begun:
            conductor.acted()
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
        if answer.state is not None and answer.state != conductor.state:
            conductor.show(before)
        else:
            conductor.acted()
        self._see(answer.effect or EffectView())
        self.known = replace(self.known.settled(), failures=self.known.failures + 1, retry_after=None)

    async def _ask(self) -> None:
        policy = self.effect.doubt
        assert isinstance(policy, Lookup)
        order = QuestionOrder(
            write=self._conductor.order(fence=self._fence(FenceOp.READ)),
            input=self._input,
            settle=policy.settle.total_seconds(),
            timeout=policy.find.timeout.total_seconds(),
        )
        known = self.known
        try:
            report = await self._call(policy.find, order, f"{self.slot}: look-up {known.asked + 1}")
        except (ActivityError, ApplicationError):
            report = Report(said=Said.MUTE, token="", why="its worker was lost")
        self._conductor.learn(report.version)
        if report.effect is not None:
            self._see(report.effect)
        mute = known.mute + 1 if report.said is Said.MUTE else 0
        misses = known.misses + 1 if report.said is Said.MISS and report.believable else known.misses
        self.known = replace(self.known, asked=known.asked + 1, mute=mute, misses=misses)
        if report.said is Said.DONE and not report.recorded:
            await self._record(Status.DONE, "found by the look-up", receipt=report.receipt, by="look-up")

    async def _record(self, status: Status, why: str, *, receipt: Any = None, by: str | None = None) -> None:
        """Compare-and-set on the token that was read: whatever came in meanwhile stands."""
        fence = self._fence(FenceOp.RESOLVE, status=status, receipt=receipt, why=storable(why), by=storable(by))
        answer = await self._conductor.write(self._conductor.order(fence=fence))
        self._see(answer.effect or EffectView())
        self.known = self.known.settled()

    async def _read(self, op: FenceOp = FenceOp.READ, **more: Any) -> None:
        """Read the fence again, as every policy does before it repeats or escalates."""
        self.poked = False
        answer = await self._conductor.write(self._conductor.order(fence=self._fence(op, **more)))
        self._see(answer.effect or EffectView())

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
        self._see(answer.effect or EffectView())
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
        try:
            return self.effect.receipt.validate_python(data)
        except ValidationError as error:
            raise DeclarationError(
                f"{self.key}: today's receipt type can't read the receipt on record: {error}"
            ) from error

    def _see(self, view: EffectView) -> None:
        self.known = replace(self.known, effect=view)
        self._seen_at = workflow.now()

    def _fence(self, op: FenceOp, *, token: str | None = None, **more: Any) -> Fence:
        return Fence(op=op, key=self.key, effect=self.slot, token=token or self.known.effect.token or "", **more)

    async def _call(self, contract: Effect[In, Out] | Find[In, Out], order: Any, summary: str) -> Report:
        self._conductor.describe()
        whole = contract.timeout + BOOKKEEPING
        if contract.inline:
            local: Report = await workflow.execute_local_activity(
                contract.name,
                order,
                result_type=Report,
                start_to_close_timeout=whole,
                retry_policy=_ONCE,
                summary=summary,
            )
            return local
        waits = (contract.pick_up, contract.heartbeat) if isinstance(contract, Effect) else _LOOK_UP_WAITS
        report: Report = await workflow.execute_activity(
            contract.name,
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
