"""One call of `perform`: the loop that asks `decide` what to do next, and does it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar, assert_never

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from perdure.activity.orders import AttemptOrder, QuestionOrder, Report, Said
from perdure.contracts.attempt import USELESS
from perdure.contracts.outcomes import Abandoned, DifferentInput, Done, Ended, Expired, GaveUp, Status, WasRefused
from perdure.contracts.policies import Dedupe, Lookup, Repeat
from perdure.contracts.sizes import ELSEWHERE, LARGEST_RECEIPT
from perdure.errors import DeclarationError
from perdure.shown import markdown
from perdure.store.writes import EffectView, FenceOp, Move, Write, storable
from perdure.telemetry import metrics, names, traces
from perdure.workflow.calling import InLine, Way, call
from perdure.workflow.carried import HowEnded
from perdure.workflow.decision import Again, Ask, Look, Park, Record, Settled, decide
from perdure.workflow.fitting import check_size
from perdure.workflow.learning import Learning
from perdure.workflow.leaving import Cancelled, Leave, Renewal
from perdure.workflow.reading import LOOKS_AGAIN, read

In = TypeVar("In")
Out = TypeVar("Out")

READ_AT_CANCEL = "perdure: a cancel in a pause reads the fence"
TAKEN_BACK = "perdure: a cancel takes back what waits in line"
ENTERS_HIDDEN = "perdure: a state that an earlier one hides is entered"

_ENDINGS: dict[str, type[Ended]] = {
    kind.__name__: kind for kind in (WasRefused, Expired, Abandoned, GaveUp, DifferentInput)
}


class Performance(Learning[In, Out], Generic[In, Out]):
    """One effect being performed."""

    _then: str | None = None
    """The state that it is to be in if it is done."""
    witness: Callable[[], Out | None] | None = None
    """Asked while nobody knows whether it happened."""
    _in_line: InLine | None = None
    """The attempt that was ordered and may still wait for its turn."""
    _withdrawn = False
    """The code that awaits it was cancelled."""

    async def run(self, entering: str | None, then: str | None, expires_at: datetime | None) -> Done[Out] | Ended:
        """Perform it until it is settled; and be in the state `then` if it is done."""
        self._check(entering, then)
        self._enters, self._then = entering, then
        end = await self._run(entering, expires_at)
        if entering is not None and self._is_hidden(entering):
            await self._conductor.follow(entering)
        if then is not None and isinstance(end, Done) and not self._is_in(then):
            await self._conductor.follow(then)
        return end

    def _check(self, entering: str | None, then: str | None) -> None:
        """Once, before anything is sent, and from the state that it will be in: what is done must not fail the run."""
        origin = entering or (None if self._conductor.catching_up else self._conductor.state)
        if then is not None and origin is not None:
            self._conductor.check_move(origin, then)

    def withdraw(self) -> None:
        """The code that awaits it was cancelled: it stops as soon as it is in no doubt, and begins no attempt till then
        but to settle one."""
        self._withdrawn = True
        self.take_back()

    @property
    def _stops(self) -> bool:
        return self._withdrawn and not self.known.effect.in_doubt

    def _is_hidden(self, entered: str) -> bool:
        """Whether an attempt has entered that state, and an earlier one is on record all the same: the attempt was made
        by a workflow task that was lost, the next task wrote the earlier state, and then Temporal lost the history."""
        states, state = self._conductor.states, self._conductor.state
        if not self.known.effect.attempts or state == entered or not states.allows(state, entered):
            return False
        return not states.leads(entered, state) and workflow.patched(ENTERS_HIDDEN)

    def _is_in(self, then: str) -> bool:
        """Whether that was committed with the outcome, with what the lifecycle remembers now."""
        conductor, moved = self._conductor, self._moved
        if moved is None or conductor.state != then:
            return False
        if not moved.final and conductor.last_move > self._follows_at:
            return False  # a write that was ordered later has shown the state of before once more
        return moved.final or moved == conductor.move_to(then).model_copy(update={"memory": moved.memory})

    async def _run(self, entering: str | None, expires_at: datetime | None) -> Done[Out] | Ended:
        conductor = self._conductor
        if self.key in conductor.performances:
            raise DeclarationError(f"{self.key} is being performed already: give one of them another suffix")
        if conductor.catching_up and (ended := conductor.ended.get(self.key)):
            conductor.performed.append(self.slot)
            if ended.kind == WasRefused.__name__:
                conductor.refused.add(self.slot)
            return _ENDINGS[ended.kind](ended.why, ended.in_doubt)
        conductor.ended.pop(self.key, None)
        conductor.performances[self.key] = self
        conductor.unsettled.pop(self.key, None)  # not sooner: what it has in doubt is in one of the two at any moment
        about = {names.LIFECYCLE: conductor.entity.lifecycle, names.EFFECT: self.effect.name}
        try:
            with traces.span_in_workflow(f"{names.SPAN_PERFORM} {self.effect.name}", about, Leave):
                end = await self._settle(entering, expires_at)
            conductor.performed.append(self.slot)
            return end
        except (Renewal, asyncio.CancelledError):
            conductor.unsettled[self.key] = self.unsettled()
            raise
        finally:
            del conductor.performances[self.key]

    async def _settle(self, entering: str | None, expires_at: datetime | None) -> Done[Out] | Ended:
        while True:
            if (receipt := self._witnessed()) is not None:
                await self._record(Status.DONE, "said by a message", receipt=receipt, by="message")
            luck = workflow.random().uniform(-1, 1) if self.known.failures else 0.0
            now = workflow.now()
            known = replace(self.known, age=max(now - self._seen_at, timedelta(0)))
            step = decide(self.effect, known, now=now, expires_at=expires_at, ending=self._conductor.ending, luck=luck)
            match step:
                case Again(pause, within):
                    if await self._wait(pause, expires_at):
                        await self._attempt(entering, expires_at, within)
                case Ask(pause):
                    if await self._wait(pause, expires_at):
                        await self._ask(expires_at)
                case Look(pause):
                    if not pause or await self._wait(pause, expires_at):
                        await self._read()
                case Record(why):
                    await self._record(Status.NOT_DONE, why)
                case Park(pause):
                    if await self._wait(pause, expires_at):
                        await self._park(expires_at)
                case Settled():
                    if self.known.effect.too_large is None:
                        return self._end(step)
                    await self._until_it_fits()
                case _:
                    assert_never(step)

    async def _wait(self, pause: timedelta, expires_at: datetime | None) -> bool:
        """Pause; False if the time that the effect is of use ended first, so that `decide` has the word.

        Raises:
            Cancelled: somebody asked for the end. Where it is in doubt, that is settled first.
        """
        now = workflow.now()
        end = now + pause if expires_at is None else min(now + pause, expires_at)
        if self._goes_on_at is not None:
            end, self._goes_on_at = min(end, max(self._goes_on_at, now)), None
        self.next_at = end
        try:
            await self._conductor.pause(
                (end - now).total_seconds(),
                self._roused,
                cancellable=not self.known.effect.in_doubt,
                summary=markdown(f"{self.slot}: next step"),
            )
        except Cancelled:
            if not self._inline or self._conductor.catching_up or not workflow.patched(READ_AT_CANCEL):
                raise
            await self._read()  # a workflow task that was lost may have begun the attempt that this pause was for
            if not self.known.effect.in_doubt and self.known.effect.status is not Status.DONE:
                raise
            self.next_at = None
            return False
        # A workflow task that was lost since then may have begun an attempt that this run does not know of.
        self.known = replace(self.known, read=False)
        if self._stops:
            raise asyncio.CancelledError
        roused, self.hurry, self.next_at = self._roused(), False, None
        if self.poked:
            await self._read()
            return False
        if self._witnessed() is not None:
            return False
        return roused or expires_at is None or workflow.now() < expires_at

    def _roused(self) -> bool:
        return self.hurry or self.poked or self._stops or self._witnessed() is not None

    def _witnessed(self) -> Any:
        """The receipt, as JSON data, that a message has brought for what nobody knows else; None if none has."""
        if self.witness is None or not self.known.effect.in_doubt:
            return None
        said = self.witness()
        return None if said is None else self.effect.receipt.dump_python(said, mode="json")

    async def _attempt(self, entering: str | None, expires_at: datetime | None, within: timedelta | None) -> None:
        conductor = self._conductor
        before = conductor.state
        move = self._entering(entering)
        self._shown = None if move is None else move.state
        self._within = None if within is None else within.total_seconds()
        fence = self._fence(FenceOp.BEGIN, after=self.known.effect.token, within=self._within)
        order = AttemptOrder(
            write=conductor.order(move=move, fence=fence),
            input=self._input,
            number=self.known.effect.attempts + 1,
            timeout=self.timeout.total_seconds(),
            progress=self._progress,
            then=self._with_outcome(),
            gives_way=None if self._own is None else isinstance(self._own.doubt, (Repeat, Dedupe)),
            expires_at=expires_at,
        )
        check_size(conductor.entity, f"an attempt of {self.slot}", order)
        self._follows, self._moved = order.then.move if order.then else None, None
        self._follows_at = order.then.version if order.then else 0
        way = Way(self._name, self._inline, self.timeout, expires_at, self._wait_in_line)
        self.ordered_at = None if self._inline else workflow.now()
        try:
            async with conductor.under_way():
                conductor.describe()
                summary = markdown(f"{self.slot}: attempt {order.number}")
                report = await call(self.effect, order, way, summary)
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

    def _wait_in_line(self, attempt: InLine) -> None:
        self._in_line = attempt

    def take_back(self) -> None:
        """Somebody has asked for the end: what waits for its turn is not to be handed out any more, unless it is to
        settle a doubt."""
        if self._in_line is not None and not self.known.effect.in_doubt and workflow.patched(TAKEN_BACK):
            self._in_line.cancel()

    def _entering(self, entering: str | None) -> Move | None:
        conductor = self._conductor
        if entering is None or entering == conductor.state:
            return None
        was_there = conductor.catching_up or self.known.effect.attempts > 0
        if was_there and not conductor.states.allows(conductor.state, entering):
            return None
        conductor.check_move(conductor.state, entering)
        if conductor.states[entering].final:
            raise DeclarationError(f"{self.key}: entering={entering!r} is a final state: it can only follow, by then=")
        conductor.show(entering)
        return conductor.move_to(entering)

    def _with_outcome(self) -> Write | None:
        """What is committed with the outcome, if it is done: the state that was declared beforehand. One that the run
        would only choose afterwards never is. Not beside others: an end would take the ground from under them."""
        conductor, then = self._conductor, self._then
        alone = len(conductor.performances) == 1 and not conductor.doubts_left
        if then is None or not alone or not conductor.states.allows(conductor.state, then):
            return None
        return conductor.order(move=conductor.move_to(then))

    async def _ask(self, expires_at: datetime | None) -> None:
        policy = (self.known.terms or self.effect).doubt
        assert isinstance(policy, Lookup)
        order = QuestionOrder(
            write=self._conductor.order(fence=self._fence(FenceOp.READ)),
            input=self._input,
            settle=policy.settle.total_seconds(),
            timeout=policy.find.timeout.total_seconds(),
        )
        check_size(self._conductor.entity, f"a look-up of {self.slot}", order)
        known = self.known
        try:
            async with self._conductor.under_way():
                self._conductor.describe()
                what = markdown(f"{self.slot}: look-up {known.asked + 1}")
                find = policy.find
                way = Way(find.name, find.inline, find.timeout, expires_at)
                report = await call(find, order, way, what)
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

    async def _until_it_fits(self) -> None:
        """It is done, and its receipt is in the database alone, too large for Temporal: wait for a deploy of code that
        declares a smaller one. Nothing is called again."""
        conductor, (pause, longest) = self._conductor, LOOKS_AGAIN
        attention = (
            f"{self.slot} is done, and its receipt of {self.known.effect.too_large} bytes does not fit into Temporal, "
            f"which takes {LARGEST_RECEIPT}: deploy a receipt type without the large part ({ELSEWHERE}), then retry"
        )
        if attention != self.attention:  # the run before has not written that
            self.attention = attention
            await conductor.write(conductor.order(move=conductor.move_to(conductor.state, attention)))
        while self.known.effect.too_large is not None:
            await self._wait(pause, None)
            pause = min(2 * pause, longest)
            await self._read()
        self.attention = None
        why = f"the receipt of {self.slot} fits"
        await conductor.write(conductor.order(move=conductor.move_to(conductor.state, why)))

    async def _park(self, expires_at: datetime | None) -> None:
        # Not only read: of an inline attempt nobody has said yet that it is lost, so its late `done` would wake nobody.
        await self._read(FenceOp.LOST, why="no word of how it ended")
        if not self.known.effect.in_doubt or self.known.effect.in_flight > 0:
            return
        conductor = self._conductor
        attention = f"{self.slot} is in doubt: {self.known.effect.why or 'no word of how it ended'}"
        if attention != self.attention:  # the run before has not written that
            self.attention = attention
            await conductor.write(conductor.order(move=conductor.move_to(conductor.state, attention)))
            self._acted()
        if not self._is_behind:
            conductor.arrived()
        self.parked = True
        try:
            left = None if expires_at is None else (expires_at - workflow.now()).total_seconds()
            await conductor.pause(
                left,
                lambda: self.resolution is not None or self.poked or self._witnessed() is not None,
                cancellable=False,  # an end now would leave the doubt to nobody
                summary=markdown(f"{self.slot}: parked"),
            )
        finally:
            self.parked = False
        self.attention = None
        await self._unpark()

    async def _unpark(self) -> None:
        conductor, said = self._conductor, self.resolution
        if said is None:
            await self._read()
            return  # a witness is heard before the next step
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
        self.known = replace(self.known.settled(), failures=0, spared=0)

    def _end(self, settled: Settled) -> Done[Out] | Ended:
        conductor, view = self._conductor, self.known.effect
        if settled.status is Status.DONE:
            return Done(self._receipt(view.receipt))
        doubt = view.in_doubt
        ended: Ended
        if settled.expired:
            ended = Expired(USELESS + (", and in doubt" if doubt else ""), doubt)
            self._count_expired(doubt)
        elif settled.gave_up:
            failed = self.known.failures - self.known.spared
            ended = GaveUp(f"{failed} attempts failed, the last: {view.why}", doubt)
        elif settled.different:
            ended = DifferentInput("an earlier attempt under this key had another input", doubt)
        elif settled.status is Status.ABANDONED:
            ended = Abandoned(view.why or "abandoned")
        else:
            ended = WasRefused(view.why or "refused", doubt)
            conductor.refused.add(self.slot)
        conductor.ended[self.key] = HowEnded(
            slot=self.slot, kind=type(ended).__name__, why=ended.why, in_doubt=ended.in_doubt
        )
        return ended

    def _count_expired(self, in_doubt: bool) -> None:
        lifecycle, outcome = self._conductor.entity.lifecycle, Status.IN_DOUBT if in_doubt else Status.NOT_DONE
        metrics.count(
            workflow.metric_meter(), names.EXPIRED, lifecycle=lifecycle, effect=self.effect.name, outcome=outcome.value
        )

    def _receipt(self, data: Any) -> Out:
        return read(self._conductor, f"the receipt of {self.slot}", lambda: self.effect.receipt.validate_python(data))


def _answer(report: Report) -> str | None:
    """In what a look-up ended, as the metric says it; None if nobody was asked."""
    if report.said is Said.MISS:
        return "miss" if report.believable else "early"
    return {Said.DONE: "hit", Said.MUTE: "mute"}.get(report.said)
