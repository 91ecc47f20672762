"""One call of `perform`: the loop that executes the decisions of `decide`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar, assert_never

from temporalio import workflow

from perdure._text.shown import cut, markdown
from perdure._wire.carried import Unsettled
from perdure._wire.known import Known
from perdure._wire.requests import Resolution
from perdure._wire.status import EffectProgress
from perdure._wire.terms import OwnTerms
from perdure._wire.writes import EffectView, FenceOp, storable
from perdure._workflow.arriving import is_ahead
from perdure._workflow.attempts import Attempts
from perdure._workflow.decision import Again, Ask, Look, Park, Record, Settled, decide
from perdure._workflow.effect_record import EffectRecord
from perdure._workflow.endings import not_performed, same_again
from perdure._workflow.leaving import Cancelled, ContinueAsNew, Leave
from perdure._workflow.lookups import LookUps
from perdure._workflow.reading import LOOKS_AGAIN, read
from perdure._workflow.recorder import Recorder
from perdure._workflow.run_state import RunState
from perdure._workflow.transitions import Transitions
from perdure._workflow.waiter import Waiter
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
    ) -> None:
        self._run = run
        self._recorder = recorder
        self._waiter = waiter
        self._transitions = transitions
        self._entering = entering
        self._then = then
        self._expires_at = expires_at
        self._confirmed_by = confirmed_by
        self.record = EffectRecord(run, recorder, effect, given, suffix, own)
        self._attempts = Attempts(run, recorder, self.record, entering=entering, then=then, expires_at=expires_at)
        self._lookups = LookUps(run, recorder, self.record, expires_at=expires_at)
        self.attention = self.record.left.attention
        """Why the effect needs a person, if it is parked, or was parked in the previous run."""
        self._goes_on_at = self.record.left.next_at
        """End of the pause that the previous run was in."""
        self._next_at: datetime | None = None
        """End of the present pause."""
        self._pause_ended = False
        self._fence_changed = False
        """A late outcome came in: the fence has a newer record."""
        self._withdrawn = False
        """Whether the awaiting code was cancelled."""
        self.parked = False
        self.resolution: Resolution | None = None
        self.resolved: str | None = None
        """The result of the resolution."""

    async def run(self) -> Done[Out] | NotPerformed:
        """Perform the effect until it is settled. Enter `then` if the effect is done."""
        self._attempts.check()
        end = await self._perform()
        if self._entering is not None and self._attempts.hides():
            await self._transitions.follow(self._entering)
        if self._then is not None and isinstance(end, Done) and not self._attempts.has_followed():
            if self._attempts.is_overwritten() and self._run.state == self._then:
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
    def pauses(self) -> bool:
        """Whether the performance waits for the time of its next step."""
        return self._next_at is not None

    @property
    def ordered_at(self) -> datetime | None:
        """Time at which the last attempt was ordered as an activity."""
        return self._attempts.ordered_at

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
            next_at=self._next_at,
        )

    def unsettled(self) -> Unsettled:
        """The data about the effect for the next run."""
        return self.record.unsettled(self.attention, self._next_at)

    def resolve(self, resolution: Resolution) -> None:
        """Note that a person has resolved the effect."""
        self.resolution = resolution

    def end_pause(self) -> None:
        """End a pause before the next step now, because a retry was requested."""
        self._pause_ended = self.pauses

    def look_again(self) -> None:
        """A late outcome came in: the fence has a newer record."""
        self._fence_changed = True

    def take_back(self) -> None:
        """Withdraw an attempt that still waits for its turn, because the end was requested."""
        self._attempts.take_back()

    def withdraw(self) -> None:
        """Stop as soon as the effect is in no doubt, because the awaiting code was cancelled. Until then an attempt
        begins only to settle a doubt."""
        self._withdrawn = True
        self.take_back()

    async def _perform(self) -> Done[Out] | NotPerformed:
        effects = self._run.effects
        if self.key in effects.performances:
            raise DeclarationError(f"{self.key} is being performed already: give one of them another suffix")
        if (self._run.catching_up or self._comes_back()) and (ended := effects.repeat_end(self)):
            return same_again(ended)
        effects.begin(self)
        about = {names.LIFECYCLE: self._run.entity.lifecycle, names.EFFECT: self.effect.name}
        try:
            with traces.span_in_workflow(f"{names.SPAN_PERFORM} {self.effect.name}", about, Leave):
                end = await self._until_settled()
            effects.settled(self)
            return end
        except (ContinueAsNew, asyncio.CancelledError):
            effects.leave_unsettled(self)
            raise
        finally:
            effects.over(self)

    def _comes_back(self) -> bool:
        """Whether an earlier run has performed the effect to its end, and this branch of `run` comes to it for the
        first time. Other branches may have arrived, and the state may be the one on record."""
        comes_back = not is_ahead() and self.key in self._run.effects.ended_earlier
        return comes_back and workflow.patched(ENDS_ARE_REPEATED)

    async def _until_settled(self) -> Done[Out] | NotPerformed:
        record = self.record
        while True:
            if (receipt := self._confirmed()) is not None:
                await record.settle(EffectStatus.DONE, "reported by a message", receipt=receipt, by="message")
            match self._decide():
                case Again(pause, within):
                    if await self._wait(pause):
                        await self._attempts.make(within)
                case Ask(pause):
                    if await self._wait(pause):
                        await self._lookups.make()
                case Look(pause):
                    if not pause or await self._wait(pause):
                        await self._read()
                case Record(why):
                    await record.settle(EffectStatus.NOT_DONE, why)
                case Park(pause):
                    if await self._wait(pause):
                        await self._park()
                case Settled() as settled:
                    if self.known.effect.too_large is None:
                        return self._end(settled)
                    await self._until_it_fits()
                case never:
                    assert_never(never)

    def _decide(self) -> Again | Ask | Look | Record | Park | Settled:
        luck = workflow.random().uniform(-1, 1) if self.known.failures else 0.0
        now, ending, known = workflow.now(), self._run.requests.ending, self.known
        if now > self.record.seen_at:
            known = replace(known, age=now - self.record.seen_at)
        return decide(self.effect, known, now=now, expires_at=self._expires_at, ending=ending, luck=luck)

    async def _wait(self, pause: timedelta) -> bool:
        """Pause. Returns False if the effect expired first, so that `decide` is called again.

        Raises:
            Cancelled: the end was requested. A doubt is settled first.
        """
        now, expires_at = workflow.now(), self._expires_at
        end = now + pause if expires_at is None else min(now + pause, expires_at)
        if self._goes_on_at is not None:
            end, self._goes_on_at = min(end, max(self._goes_on_at, now)), None
        self._next_at = end
        try:
            await self._waiter.pause(
                (end - now).total_seconds(),
                self._is_woken,
                cancellable=not self.record.in_doubt,
                moves=lambda: not self._stops,
                summary=markdown(f"{self.slot}{self._so_far()}: next step"),
            )
        except Cancelled:
            if not self.record.inline or self._run.catching_up:
                raise
            await self._read()  # a lost workflow task may have begun the attempt after this pause
            if not self.record.in_doubt and self.known.effect.status is not EffectStatus.DONE:
                raise
            self._next_at = None
            return False
        # A workflow task that was lost since then may have begun an attempt without this run.
        if self.known.read:
            self.record.note(read=False)
        if self._stops:
            raise asyncio.CancelledError
        woken, self._pause_ended, self._next_at = self._is_woken(), False, None
        if self._fence_changed:
            await self._read()
            return False
        if self._confirmed() is not None:
            return False
        return woken or expires_at is None or workflow.now() < expires_at

    def _so_far(self) -> str:
        """How the last attempt ended, for whoever looks."""
        view = self.known.effect
        why = f": {cut(view.why)}" if view.why else ""
        if self.record.in_doubt:
            return f" is in doubt{why}"
        return f" was not done{why}" if view.status is EffectStatus.NOT_DONE else ""

    @property
    def _stops(self) -> bool:
        return self._withdrawn and not self.record.in_doubt

    def _is_woken(self) -> bool:
        return self._pause_ended or self._fence_changed or self._stops or self._confirmed() is not None

    def _confirmed(self) -> Any:
        """The receipt, as JSON data, of a message that confirms the effect in doubt; None without such a message."""
        if self._confirmed_by is None or not self.record.in_doubt:
            return None
        receipt = self._confirmed_by()
        return None if receipt is None else self.effect.receipt.dump_python(receipt, mode="json")

    async def _read(self, op: FenceOp = FenceOp.READ, **more: Any) -> None:
        self._fence_changed = False
        await self._attempts.read(op, **more)

    async def _until_it_fits(self) -> None:
        """Wait for a deploy of code that declares a smaller receipt: the effect is done, and its receipt is too large
        for Temporal, so it is only in the database. No call is made again."""
        pause, longest = LOOKS_AGAIN
        await self._need_person(
            f"{self.slot} is done, and its receipt of {self.known.effect.too_large} bytes does not fit into Temporal, "
            f"which takes {LARGEST_RECEIPT}: deploy a receipt type without the large part ({ELSEWHERE}), then retry"
        )
        self._expires_at = None  # a done effect does not expire
        while self.known.effect.too_large is not None:
            await self._wait(pause)
            pause = min(2 * pause, longest)
            await self._read()
        self.attention = None
        await self._recorder.move_here(f"the receipt of {self.slot} fits")

    async def _need_person(self, attention: str) -> bool:
        """Show why a person is needed. Returns False if the previous run has done so."""
        if attention == self.attention:
            return False
        self.attention = attention
        await self._recorder.move_here(attention)
        return True

    async def _park(self) -> None:
        """Wait until a person resolves the effect."""
        # `LOST` and not `READ`: an inline attempt does not count as lost yet, so its late `done` would wake no run.
        await self._read(FenceOp.LOST, why="no word of how it ended")
        if not self.record.in_doubt or self.known.effect.in_flight > 0:
            return
        if await self._need_person(f"{self.slot} is in doubt: {self.known.effect.why or 'no word of how it ended'}"):
            self._attempts.acted()
        if not self.record.is_behind:
            self._run.arrived()
        self.parked = True
        try:
            left = None if self._expires_at is None else (self._expires_at - workflow.now()).total_seconds()
            await self._waiter.pause(
                left,
                lambda: self.resolution is not None or self._fence_changed or self._confirmed() is not None,
                cancellable=False,  # an end now would leave the doubt open
                summary=markdown(f"{self.slot}: parked"),
            )
        finally:
            self.parked = False
        self.attention = None
        if self.resolution is None:
            await self._read()  # a confirmation counts before the next step
        else:
            await self._take(self.resolution)

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
        self.resolution = None
        record.note_resolution()

    def _end(self, settled: Settled) -> Done[Out] | NotPerformed:
        if settled.status is EffectStatus.DONE:
            return Done(self._receipt(self.known.effect.receipt))
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
        return read(self._run, f"the receipt of {self.slot}", lambda: self.effect.receipt.validate_python(data))
