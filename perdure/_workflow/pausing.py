"""The waits of one performance: the pause before a step, and the wait for a person; and the events that end them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from temporalio import workflow

from perdure._text.shown import cut, markdown
from perdure._wire.requests import Resolution
from perdure._wire.writes import FenceOp
from perdure._workflow.arguments import answer_of
from perdure._workflow.attempts import Attempts
from perdure._workflow.effect_record import EffectRecord
from perdure._workflow.leaving import Cancelled
from perdure._workflow.reading import LOOK
from perdure._workflow.run_state import RunState
from perdure._workflow.waiter import Waiter
from perdure.contracts.dumping import dump, load
from perdure.contracts.effects import first_problem
from perdure.contracts.outcomes import EffectStatus
from perdure.errors import InvalidInput

In = TypeVar("In")
Out = TypeVar("Out")


class Pauses(Generic[In, Out]):
    """Waits for the next step of one performance, or for a person.

    Args:
        expires_at: no attempt begins after this time.
        confirmed_by: the author's function, which is called while the effect is in doubt.

    Attributes:
        expires_at: as given. A done effect does not expire.
        next_at: end of the present pause.
        parked: whether the effect waits for a person.
        resolution: the resolution of a person that is not recorded yet.
        withdrawn: whether the awaiting code was cancelled.
        over_at: end of the last pause, if only its time has ended it. No lost workflow task ended it sooner.
    """

    def __init__(
        self,
        run: RunState,
        waiter: Waiter,
        record: EffectRecord[In, Out],
        attempts: Attempts[In, Out],
        *,
        expires_at: datetime | None,
        confirmed_by: Callable[[], Out | None] | None,
    ) -> None:
        self._run = run
        self._waiter = waiter
        self._record = record
        self._attempts = attempts
        self._confirmed_by = confirmed_by
        self.expires_at = expires_at
        self.next_at: datetime | None = None
        self.over_at: datetime | None = None
        self.parked = False
        self.resolution: Resolution | None = None
        self._has_paused = False
        """Whether this performance has paused. Its first pause is the one in which the effect was left."""
        self._ended = False
        """Whether a request for a retry has ended the present pause."""
        self._fence_changed = False
        """Whether a late outcome came in, so that the fence has a newer record."""
        self.withdrawn = False

    def end(self) -> None:
        """End the present pause, if there is one, because a retry was requested."""
        self._ended = self.next_at is not None

    def note_late_outcome(self) -> None:
        """Read the fence again, because a late outcome was recorded."""
        self._fence_changed = True

    def withdraw(self) -> None:
        """Stop as soon as the effect is in no doubt, because the awaiting code was cancelled."""
        self.withdrawn = True

    def confirmed(self) -> Any:
        """The receipt, as JSON data, of a message that confirms the effect in doubt; None without such a message.

        Raises:
            InvalidInput: the author's function has returned what does not fit the contract.
        """
        if (given := self._confirmation()) is None:
            return None
        adapter = self._record.effect.receipt
        receipt = dump(adapter.serializer, given, warnings=False)
        if not workflow.unsafe.is_replaying():
            try:
                load(adapter, receipt)
            except ValueError as error:
                why = f"what confirmed_by returned is no receipt of it: {first_problem(error)}"
                raise InvalidInput(f"{self._record.key}: {why}") from None
        return receipt

    async def read(self, op: FenceOp = FenceOp.READ, **more: Any) -> None:
        """Read the fence, with all outcomes that came in."""
        self._fence_changed = False
        await self._attempts.read(op, **more)

    async def before_step(self, pause: timedelta) -> bool:
        """Pause. Returns False if there is something new to decide, such as that the effect has expired.

        Raises:
            Cancelled: the end was requested. A doubt is settled first.
        """
        record, now = self._record, workflow.now()
        next_step = "next step" if record.known.effect.too_large is None else f"{LOOK} it fits"
        expires_at = None if record.known.effect.status is EffectStatus.DONE else self.expires_at
        end = now + pause if expires_at is None else min(now + pause, expires_at)
        if not self._has_paused and record.left.next_at is not None:
            end = min(end, max(record.left.next_at, now))
        self._has_paused = True
        self.next_at = end
        record.barred_at = None
        try:
            await self._waiter.pause(
                (end - now).total_seconds(),
                self._is_woken,
                cancellable=not record.in_doubt,
                moves=lambda: not self._stops,
                summary=markdown(f"{record.slot}{self._so_far()}: {next_step}"),
            )
        except Cancelled:
            waits_for_receipt = record.known.effect.too_large is not None
            # A lost workflow task may have begun the attempt after this pause. The database may have lost the record of
            # a done effect whose receipt did not fit.
            await self.read(FenceOp.BAR)
            if waits_for_receipt and record.known.effect.status is EffectStatus.DONE:
                raise
            if not record.in_doubt and record.known.effect.status is not EffectStatus.DONE:
                raise
            self.next_at = None
            return False
        # A workflow task that was lost since then may have begun an attempt without this run.
        if record.known.read:
            record.note(read=False)
        if self._stops:
            await self.read(FenceOp.BAR)
            view = record.known.effect
            if not view.in_doubt and (view.status is not EffectStatus.DONE or view.too_large is not None):
                raise asyncio.CancelledError
            return False
        woken, self._ended, self.next_at = self._is_woken(), False, None
        self.over_at = None if woken else end
        if self._fence_changed:
            await self.read()
            return False
        if self.confirmed() is not None:
            return False
        return woken or expires_at is None or workflow.now() < expires_at

    async def for_person(self) -> None:
        """Wait until a person resolves the effect, a late outcome or a confirmation comes in, or the effect expires."""
        self.parked = True
        try:
            left = None if self.expires_at is None else (self.expires_at - workflow.now()).total_seconds()
            await self._waiter.pause(
                left,
                lambda: self.resolution is not None or self._fence_changed or self._confirmation() is not None,
                cancellable=False,  # an end now would leave the doubt open
                summary=markdown(f"{self._record.slot}: parked"),
            )
        finally:
            self.parked = False

    @property
    def _stops(self) -> bool:
        return self.withdrawn and not self._record.in_doubt

    def _is_woken(self) -> bool:
        return self._ended or self._fence_changed or self._stops or self._confirmation() is not None

    def _confirmation(self) -> Out | None:
        """The receipt of a message that confirms the effect in doubt, as the author's function returns it."""
        if self._confirmed_by is None or not self._record.in_doubt:
            return None
        return answer_of(f"{self._record.key}: confirmed_by", self._confirmed_by)

    def _so_far(self) -> str:
        """How the last attempt ended, for the summary of the timer."""
        view = self._record.known.effect
        why = f": {cut(view.why)}" if view.why else ""
        if self._record.in_doubt:
            return f" is in doubt{why}"
        return f" was not done{why}" if view.status is EffectStatus.NOT_DONE else ""
