"""One call of `perform`: the loop that executes the decisions of `decide`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, Generic, TypeVar, assert_never

from temporalio import workflow

from perdure._wire.carried import Unsettled
from perdure._wire.known import NOW, Known
from perdure._wire.requests import Resolution
from perdure._wire.status import EffectProgress
from perdure._wire.terms import OwnTerms
from perdure._wire.writes import EffectView, FenceOp, storable
from perdure._workflow.arriving import is_ahead
from perdure._workflow.attempt_moves import AttemptMoves
from perdure._workflow.attempts import Attempts
from perdure._workflow.decision import Again, Ask, Look, Park, Record, Settled, decide
from perdure._workflow.effect_record import EffectRecord
from perdure._workflow.endings import not_performed, same_again
from perdure._workflow.leaving import ContinueAsNew, Leave
from perdure._workflow.ledger import first_slot_of
from perdure._workflow.lookups import LookUps
from perdure._workflow.pausing import Pauses
from perdure._workflow.reading import LOOKS_AGAIN, read
from perdure._workflow.recorder import Recorder
from perdure._workflow.run_state import RunState
from perdure._workflow.sending import may_go_again
from perdure._workflow.transitions import Transitions
from perdure._workflow.waiter import Waiter
from perdure.contracts.dumping import load
from perdure.contracts.effects import Effect
from perdure.contracts.keys import Key
from perdure.contracts.outcomes import (
    Done,
    EffectStatus,
    NotPerformed,
)
from perdure.contracts.sizes import ELSEWHERE, LARGEST_RECEIPT
from perdure.errors import DeclarationError
from perdure.telemetry import metrics, names, traces

In = TypeVar("In")
Out = TypeVar("Out")


ENDS_ARE_REPEATED = "perdure: each branch repeats its ends"
AWAITS_END = "perdure: a performance waits for an end that is being written"
BARS_ENDS = "perdure: an end that was ordered before a performance is barred"
TAKES_OVER = "perdure: a performance goes on from what has settled its doubt"
SHOWN_AS_OVER = "perdure: the mirror shows that no person is needed any more"


class Performance(Generic[In, Out]):
    """One effect being performed.

    Args:
        given: the input of the effect, as JSON data.
        suffix: distinguishes several performances of the effect.
        own: terms of this performance in place of the contract's.
        entering: the state that is committed with the first attempt's record.
        then: the state to enter if the effect is done.
        expires_at: no attempt begins after this time.
        confirmed_by: the author's function, which is called while the effect is in doubt.
        key: the key of a doubt that was left; None = the key of a performance that begins now.
    """

    def __init__(
        self,
        run: RunState,
        recorder: Recorder,
        waiter: Waiter,
        transitions: Transitions,
        effect: Effect[In, Out],
        given: Any,
        *,
        suffix: str | None = None,
        own: OwnTerms | None = None,
        entering: str | None = None,
        then: str | None = None,
        expires_at: datetime | None = None,
        confirmed_by: Callable[[], Out | None] | None = None,
        key: Key | None = None,
    ) -> None:
        self._run = run
        self._recorder = recorder
        self._waiter = waiter
        self._transitions = transitions
        self.settles = key is not None
        self._entering = entering
        self._then = then
        self.expires_at = expires_at
        # Nobody would be told that a doubt which is only settled has expired: it waits for a person then.
        ends_at = None if self.settles else expires_at
        self.record = EffectRecord(run, recorder, effect, given, suffix, own, key)
        self._moves = AttemptMoves(run, recorder, self.record, entering=entering, then=then)
        self._attempts = Attempts(run, recorder, self.record, self._moves, expires_at=expires_at)
        self._lookups = LookUps(run, recorder, self.record, self._attempts, expires_at=ends_at)
        self._pauses = Pauses(run, waiter, self.record, self._attempts, expires_at=ends_at, confirmed_by=confirmed_by)
        self.attention = self.record.left.attention
        """Why the effect needs a person, if it is parked, or was parked in the previous run."""
        self._has_shown = True
        """Whether the mirror shows that. The run may continue as new before."""
        self._needed_person = False
        """Whether a person was needed, and is not any more."""
        self.resolved: str | None = None
        """The result of the resolution."""

    async def run(self) -> Done[Out] | NotPerformed:
        """Perform the effect until it is settled. Enter `then` if the effect is done."""
        await self._until_open()
        self._moves.check()
        with self._recorder.describing():  # the author's code may wait already, beside this effect
            end = await self._perform()
        # Where a cancel has stopped an earlier run before the effect, its state is not entered: the cancel stops this
        # run as well, unless the author's code has to learn of a doubt.
        learns = self._run.requests.stopped and not isinstance(end, Done)
        if self._entering is not None and not learns and self._moves.hides():
            await self._transitions.follow(self._entering)
        if self._then is not None and isinstance(end, Done):
            if self._moves.has_followed():
                self._transitions.committed(self._then)
            elif self._moves.is_overwritten() and self._run.state == self._then:
                await self._transitions.move(self._then)
            else:
                await self._transitions.follow(self._then)
        return end

    @property
    def effect(self) -> Effect[In, Out]:
        """The contract of the effect."""
        return self.record.effect

    @property
    def key(self) -> Key:
        """The idempotency key."""
        return self.record.key

    @property
    def slot(self) -> str:
        """The effect's name, with the suffix."""
        return self.record.slot

    @property
    def known(self) -> Known:
        """The facts about the effect."""
        return self.record.known

    @property
    def pausing(self) -> bool:
        """Whether the performance waits for the time of its next step."""
        return self._pauses.next_at is not None

    @property
    def parked(self) -> bool:
        """Whether the effect waits for a person to resolve it."""
        return self._pauses.parked

    @property
    def resolution(self) -> Resolution | None:
        """The resolution of a person that is not recorded yet."""
        return self._pauses.resolution

    @property
    def passed_at(self) -> datetime | None:
        """The earliest time at which this run, or an earlier one, can have ordered the effect; None = the performance
        has waited for no activity, so a task that was lost may have passed it sooner."""
        return self.record.since if self._attempts.waited else None

    @property
    def may_end(self) -> bool:
        """Whether the outcome of an attempt may still end the entity, beside what has begun since."""
        return self._moves.may_end

    @property
    def begun(self) -> bool:
        """Whether an attempt has begun in this run."""
        return self._attempts.begun

    def status(self) -> EffectProgress:
        """The progress of the effect, for the query `status`."""
        view = self.known.effect
        return EffectProgress(
            effect=self.slot,
            key=self.key,
            status=view.status,
            attempts=view.attempts,
            parked=self.parked,
            why=view.why,
            next_at=self._pauses.next_at,
        )

    def unsettled(self) -> Unsettled:
        """The data about the effect for the next run."""
        shown = self.attention if self._has_shown else None
        return self.record.unsettled(attention=shown, next_at=self._pauses.next_at, expires_at=self.expires_at)

    def resolve(self, resolution: Resolution) -> None:
        """Note that a person has resolved the effect."""
        self.resolved, self._pauses.resolution = None, resolution

    def end_pause(self) -> None:
        """End a pause before the next step now, because a retry was requested."""
        self._pauses.end()

    def look_again(self) -> None:
        """Read the fence again, because a late outcome was recorded."""
        self._pauses.note_late_outcome()

    def take_back(self) -> None:
        """Withdraw an attempt that still waits for its turn, because the end was requested."""
        self._attempts.take_back()

    def withdraw(self) -> None:
        """Stop as soon as the effect is in no doubt, because the awaiting code was cancelled. Until then an attempt
        begins only to settle a doubt."""
        self._pauses.withdraw()
        self.take_back()

    async def _until_open(self) -> None:
        """Wait for an end that is being written. If it is refused, the effect is performed; else it comes too late."""
        if (state := self._entering or self._then) is not None:
            await self._transitions.until_open(state)
        elif self._transitions.ending and workflow.patched(AWAITS_END):
            await self._transitions.until_decided()

    async def _perform(self) -> Done[Out] | NotPerformed:
        effects = self._run.effects
        while (other := effects.performances.get(self.key)) is not None:
            if not other.settles:
                raise DeclarationError(
                    f"{self.key} is being performed already: await the task that performs it, or, if this is to happen "
                    "a second time, give one of them another suffix"
                )
            await self._waiter.quiet(lambda: self.key not in effects.performances)
            await self._until_open()  # the end that the doubt held up may be under way
        if (self._comes_back() or not may_go_again(first_slot_of(self.key))) and (ended := effects.repeat_end(self)):
            return same_again(ended)
        self._take_over()
        effects.begin(self)
        about = {names.LIFECYCLE: self._run.entity.lifecycle, names.EFFECT: self.effect.name}
        try:
            with traces.span_in_workflow(f"{names.SPAN_PERFORM} {self.effect.name}", about, Leave):
                await self._bar_end()
                end = await self._until_settled()
                if self._needed_person:
                    await self._recorder.update_mirror()
            effects.settled(self)
            if not isinstance(end, Done):
                self.record.goes_another_way()
            return end
        except asyncio.CancelledError:
            self.record.goes_another_way()
            effects.leave_unsettled(self)
            raise
        except ContinueAsNew:
            effects.leave_unsettled(self)
            raise
        finally:
            effects.over(self)

    async def _bar_end(self) -> None:
        """If the outcome of another effect may end the entity, write the present state again: that end was ordered
        before this performance began, and comes after it. An earlier run may have ordered it."""
        effects = self._run.effects
        others = (each for key, each in effects.performances.items() if key != self.key)
        is_left = self._recorder.last_move == 0 and effects.doubts_left
        if (is_left or any(each.may_end for each in others)) and workflow.patched(BARS_ENDS):
            await self._recorder.move_here()

    def _take_over(self) -> None:
        """Go on from what has settled the doubt, or has left it, while this performance has waited for its begin."""
        left, known = self._run.effects.unsettled.get(self.key), self.record.left
        if left is not known and (left or known.effect) is not None and workflow.patched(TAKES_OVER):
            if left is not None:
                self.record.go_on_from(left)
            self.attention = None if left is None else left.attention

    def _comes_back(self) -> bool:
        """Whether an earlier run has performed the effect to its end, and this branch of `run` comes to it for the
        first time. Other branches may have arrived, and the state may be the one on record."""
        run = self._run
        is_first = self.key in run.effects.ended_earlier
        if run.catching_up:
            return is_first or not run.goes_round
        return is_first and not is_ahead() and workflow.patched(ENDS_ARE_REPEATED)

    async def _until_settled(self) -> Done[Out] | NotPerformed:
        record, pauses = self.record, self._pauses
        while True:
            if not record.in_doubt and self.known.effect.too_large is None:
                self._need_nobody()  # the next doubt is shown anew
            if (receipt := pauses.confirmed()) is not None:
                await self._attempts.settle(EffectStatus.DONE, "reported by a message", receipt=receipt, by="message")
            match self._decide():
                case Again(pause, within):
                    if await pauses.before_step(pause):
                        await self._attempts.make(within)
                case Ask(pause):
                    if await pauses.before_step(pause):
                        await self._lookups.make()
                case Look(pause):
                    if not pause or await pauses.before_step(pause):
                        await pauses.read(FenceOp.BAR)
                case Record(why):
                    await self._attempts.settle(EffectStatus.NOT_DONE, why)
                case Park(pause):
                    if await pauses.before_step(pause):
                        await self._park()
                case Settled() as settled:
                    if self._may_begin(settled):
                        await pauses.read(FenceOp.BAR)
                        continue
                    if self.known.effect.too_large is None:
                        if await self._stays_here():
                            return self._end(settled)
                        continue
                    await self._until_it_fits()
                case never:
                    assert_never(never)

    def _decide(self) -> Again | Ask | Look | Record | Park | Settled:
        luck = workflow.random().uniform(-1, 1) if self.known.failures else 0.0
        now, ending, known = workflow.now(), self._run.requests.ending, self.known
        expires_at = self._pauses.expires_at
        if now > self.record.seen_at:
            known = replace(known, age=now - self.record.seen_at)
        if expires_at is not None and self.record.asked_at < expires_at <= now:
            # This task may begin with an answer from before the expiry. A task that was lost may have begun an attempt
            # after that answer, in time.
            known = replace(known, read=False)
        self._note_expiry(now)
        decision = decide(self.effect, known, now=now, expires_at=expires_at, ending=ending, luck=luck)
        if self.settles and isinstance(decision, Again) and self.expires_at and now + decision.pause >= self.expires_at:
            return Park(max(known.in_flight, NOW))
        return decision

    def _note_expiry(self, now: datetime) -> None:
        """If the effect has expired, note that a lost attempt of this workflow task may have come in time. It may have
        begun an attempt, and other branches may have continued with the state of that attempt."""
        expires_at, earliest = self._pauses.expires_at, self._run.events.earliest()
        if self._pauses.over_at is not None:
            earliest = max(earliest, self._pauses.over_at)
        if expires_at is not None and earliest < expires_at <= now:
            self._run.takes_another_way(earliest)

    def _may_begin(self, settled: Settled) -> bool:
        """Whether an attempt that was ordered before may still begin, after the author's code has received that the
        effect was not done: a frozen worker may have an order of a lost workflow task, or of a run before."""
        barred_at, expires_at = self.record.barred_at, self._pauses.expires_at
        if self.known.effect.status not in (EffectStatus.ABSENT, EffectStatus.NOT_DONE):
            return False
        return barred_at is None or (settled.expired and expires_at is not None and barred_at < expires_at)

    async def _stays_here(self) -> bool:
        """Before an end in doubt, write the present state again: a lost attempt that is done later must not enter
        `then`, because the author's code has gone on. Returns False if such an outcome has come meanwhile."""
        if self._then is None or not self.record.in_doubt:
            return True
        order = self._recorder.order(
            fence=self.record.fence(FenceOp.READ), move=self._recorder.move_to(self._run.state)
        )
        answer = await self._recorder.write(order)
        self.record.see(answer.effect or EffectView(), answer)
        return self.record.in_doubt

    async def _until_it_fits(self) -> None:
        """Wait for a deploy of code that declares a smaller receipt: the effect is done, and its receipt is too large
        for Temporal, so it is only in the database. No call is made again."""
        pause, longest = LOOKS_AGAIN
        # `_OF_AN_EFFECT` in _store/parked.py matches this text.
        await self._need_person(
            f"is done, and its receipt of {self.known.effect.too_large} bytes does not fit into Temporal, "
            f"which takes {LARGEST_RECEIPT}: deploy a receipt type without the large part ({ELSEWHERE}), then retry"
        )
        try:
            while self.known.effect.too_large is not None:
                await self._pauses.before_step(pause)
                pause = min(2 * pause, longest)
                await self._pauses.read()
        except asyncio.CancelledError:
            if self._pauses.withdrawn:  # a deploy would help nobody any more
                self.attention = None
                await self._recorder.move_here(f"the receipt of {self.slot} is not needed")
            raise
        self.attention = None
        is_done = self.known.effect.status is EffectStatus.DONE  # otherwise the database has lost its record
        if not is_done:
            self._moves.show_without_then()
        await self._recorder.move_here(f"the receipt of {self.slot} fits" if is_done else None)

    async def _need_person(self, reason: str) -> bool:
        """Show why a person is needed. Returns False if the previous run has done so, whose build may have another name
        for the effect.

        Raises:
            Overtaken: the entity has ended, so no person can do anything, and nobody needs the receipt.
        """
        await self._transitions.until_open()
        if self.attention is not None and self.attention.endswith(f" {reason}"):
            return False
        self.attention, self._has_shown = f"{self.slot} {reason}", False
        await self._recorder.move_here(self.attention)
        self._has_shown = True
        return True

    def _need_nobody(self) -> None:
        """Note that no person is needed any more. If no other write shows that before, the next wait does, or the end
        of the performance."""
        if self.attention is not None:
            self.attention = None
            if workflow.patched(SHOWN_AS_OVER):
                self._needed_person = True
                self._recorder.note_outdated(self._run.version + 1)

    async def _park(self) -> None:
        """Wait until a person resolves the effect."""
        pauses = self._pauses
        # `LOST` and not `READ`: an inline attempt does not count as lost yet, so its late `done` would wake no run.
        await pauses.read(FenceOp.LOST, why="no word of how it ended")
        if not self.record.in_doubt or self.known.effect.in_flight > 0:
            return
        # `ABOUT_DOUBT` and `_OF_AN_EFFECT` in _store/parked.py match this text.
        if await self._need_person(f"is in doubt: {self.known.effect.why or 'no word of how it ended'}"):
            self._attempts.acted()
        if not self.record.is_behind:
            self._run.arrived()
        await pauses.for_person()
        self._need_nobody()
        if pauses.resolution is None:
            await pauses.read()  # a confirmation counts before the next step
        else:
            await self._take(pauses.resolution)

    async def _take(self, resolution: Resolution) -> None:
        """Record the resolution of a person."""
        record, recorder = self.record, self._recorder
        fence = record.fence(
            FenceOp.RESOLVE,
            status=resolution.outcome,
            receipt=resolution.receipt,
            why=storable(resolution.note),
            by=storable(resolution.by),
        )
        why = f"{self.slot} resolved as {resolution.outcome}: {resolution.note}"
        move = recorder.move_to(self._run.state, why, resolution.by)
        answer = await recorder.write(recorder.order(fence=fence, move=move))
        record.see(answer.effect or EffectView(), answer)
        status = self.known.effect.status
        self.resolved = (
            f"resolved as {status}" if status is resolution.outcome else f"too late: it had become {status} meanwhile"
        )
        self._pauses.resolution = None
        record.note_resolution()

    def _end(self, settled: Settled) -> Done[Out] | NotPerformed:
        if settled.status is EffectStatus.DONE:
            data = self.known.effect.receipt
            return Done(data if self.settles else self._receipt(data))  # nobody reads what only settles a doubt
        ended = not_performed(settled, self.known)
        if settled.expired:
            self._count_expired(ended.in_doubt)
        self._run.effects.note_end(self, ended)
        return ended

    def _count_expired(self, in_doubt: bool) -> None:
        lifecycle, outcome = self._run.entity.lifecycle, EffectStatus.IN_DOUBT if in_doubt else EffectStatus.NOT_DONE
        metrics.count(
            workflow.metric_meter(), names.EXPIRED, lifecycle=lifecycle, effect=self.effect.name, outcome=outcome.value
        )

    def _receipt(self, data: Any) -> Out:
        return read(self._run, f"the receipt of {self.slot}", lambda: load(self.effect.receipt, data))
