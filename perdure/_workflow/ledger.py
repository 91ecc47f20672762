"""What became of a run's effects: being performed, left unsettled by the run before, ended without being done."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from perdure._wire.carried import Carried, HowNotPerformed, Unsettled, found_on_record
from perdure._wire.known import Known
from perdure._wire.requests import Resolution
from perdure._wire.status import EffectProgress
from perdure._wire.terms import Terms, all_terms
from perdure._wire.writes import EffectView, Fence, FenceOp
from perdure.contracts.effects import Effect
from perdure.contracts.keys import Entity, Key, slot_of
from perdure.contracts.outcomes import Abandoned, DifferentInput, EffectStatus, NotPerformed, WasRefused

REMEMBERED = 100
"""How many performances of earlier runs a run hands on that has not repeated them: one that goes on from its snapshot
repeats none, and is to grow no longer by new runs."""


class Performing(Protocol):
    """A performance under way, as the rest of its run sees it.

    Attributes:
        slot: the effect's name, with its suffix.
        parked: whether it waits for a person to resolve it.
        attention: why a person is needed, if one is.
    """

    @property
    def key(self) -> Key: ...
    @property
    def slot(self) -> str: ...
    @property
    def effect(self) -> Effect[Any, Any]: ...
    @property
    def known(self) -> Known: ...
    @property
    def attention(self) -> str | None: ...
    @property
    def parked(self) -> bool: ...
    @property
    def pauses(self) -> bool: ...
    @property
    def resolution(self) -> Resolution | None: ...
    @property
    def resolved(self) -> str | None: ...

    def status(self) -> EffectProgress:
        """Where it is, as the query `status` shows it."""

    def unsettled(self) -> Unsettled:
        """What the next run must know of it."""

    def resolve(self, said: Resolution) -> None:
        """A person has reported what became of it."""

    def hurry(self) -> None:
        """A retry was requested: a pause before the next step ends now."""

    def look_again(self) -> None:
        """A late outcome came in: the fence knows more."""

    def take_back(self) -> None:
        """The end was requested: an attempt that still waits for its turn is not handed out."""


class Ledger:
    """The effects of one run.

    Attributes:
        again: how often each was sent anew, by slot.
        ended: those that ended without being done, by key.
        ended_since_retry: keys of those that ended since somebody last asked for a retry, oldest first; None = nobody
            has.
        unsettled: those that an earlier run left under way, or that only the record knows of, by key.
        terms: of the effects in this run, by the names that their keys carry; empty where an older release began it.
        performances: those that are being performed, by key.
        performed_before: slots of those whose performance ended in an earlier run, and that this one may repeat;
            None = not known.
        refused: slots of those that were refused: their next performance has a new key.
    """

    def __init__(self, effects: Sequence[Effect[Any, Any]], carried: Carried) -> None:
        self._effects = effects
        self._former = {former: each.name for each in effects for former in each.aliases}
        self.again = {self._slot(slot): times for slot, times in carried.again.items()}
        self.ended = {key: how.model_copy(update={"slot": self._slot(how.slot)}) for key, how in carried.ended.items()}
        self.ended_since_retry = None if carried.retried is None else dict.fromkeys(carried.retried)
        self.unsettled = dict(carried.unsettled)
        self.terms = dict(carried.terms)
        self.performances: dict[str, Performing] = {}
        known = carried.performed
        if known is None and carried.state is None:
            known = []
        self.performed_before = None if known is None else [self._slot(slot) for slot in known]
        self._performed: list[str] = []
        """Slots of those whose performance ended in this run."""
        self.refused: set[str] = set()

    def new_key(self, entity: Entity, effect: Effect[Any, Any], suffix: str | None) -> Key:
        """The key of a performance that begins now: a new one where the last was refused."""
        slot = slot_of(effect.name, suffix)
        if slot in self.refused:
            self.refused.discard(slot)
            self.ended.pop(Key.of(entity, effect.identity, suffix, self.again.get(slot, 0)), None)
            self.again[slot] = self.again.get(slot, 0) + 1
        return Key.of(entity, effect.identity, suffix, self.again.get(slot, 0))

    def repeat_end(self, performance: Performing) -> HowNotPerformed | None:
        """How it ended in an earlier run, if it did without being done: it ends so once more."""
        how = self.ended.get(performance.key)
        if how is not None:
            self._performed.append(performance.slot)
            if how.kind == WasRefused.__name__:
                self.refused.add(performance.slot)
        return how

    def begin(self, performance: Performing) -> None:
        """It is under way."""
        key = performance.key
        self.ended.pop(key, None)
        self.performances[key] = performance
        self.unsettled.pop(key, None)  # not sooner: what it has in doubt is in one of the two at any moment

    def note_end(self, performance: Performing, ended: NotPerformed) -> None:
        """It ends without being done."""
        if isinstance(ended, WasRefused):
            self.refused.add(performance.slot)
        self.ended[performance.key] = HowNotPerformed(
            slot=performance.slot, kind=type(ended).__name__, why=ended.why, in_doubt=ended.in_doubt
        )
        if self.ended_since_retry is not None:
            self.ended_since_retry[performance.key] = None

    def retry_begins(self) -> None:
        """A retry was requested, and begins."""
        self.ended_since_retry = {}

    def given_up(self) -> str | None:
        """Key of an effect that a retry would not call, where it would call no other one either; None if it may call
        one.

        Which effects `run` comes back to is not known before the first retry. After that, it is what ended again: one
        that ended earlier, and that `run` has left behind, does not count.
        """
        since = self.ended_since_retry
        count = [(key, how) for key, how in self.ended.items() if not since or key in since]
        uncalled = [key for key, how in count if how.kind in (Abandoned.__name__, DifferentInput.__name__)]
        return uncalled[0] if uncalled and len(uncalled) == len(count) else None

    def settled(self, performance: Performing) -> None:
        """Its author has the answer."""
        self._performed.append(performance.slot)

    def leave_unsettled(self, performance: Performing) -> None:
        """It is left without an answer, to the next run or to the end of this one."""
        self.unsettled[performance.key] = performance.unsettled()

    def over(self, performance: Performing) -> None:
        """It is not under way any more."""
        del self.performances[performance.key]

    def send_anew(self, key: str) -> str:
        """Let the next performance of an effect that ended have a new key; its slot."""
        slot = self.ended.pop(key).slot
        self.refused.discard(slot)
        self.again[slot] = self.again.get(slot, 0) + 1
        return slot

    def goes_first(self) -> None:
        """An effect was begun that is not on record, and no record was lost: no earlier run came so far."""
        if self.performed_before is None:
            self.performed_before = []

    def take_terms(self, terms: dict[str, Terms] | None) -> None:
        """The terms of the worker that put the entity on record hold for the whole run."""
        self.terms = terms or {}

    @property
    def doubts_left(self) -> list[Unsettled]:
        """What the run before had in doubt, and this one has not come back to."""
        return [each for each in self.unsettled.values() if each.known.effect.in_doubt]

    @property
    def attention(self) -> str | None:
        """Why an effect needs a person: it is parked, or its receipt does not fit."""
        effects: list[Performing | Unsettled] = [*self.performances.values(), *self.unsettled.values()]
        parked = (each.attention for each in effects if each.known.effect.in_doubt or each.known.effect.too_large)
        return next((why for why in parked if why), None)

    @property
    def attention_word(self) -> str | None:
        """The same by names alone, as the search attribute has it."""
        named: list[tuple[Performing | Unsettled, str]] = [(it, it.effect.name) for it in self.performances.values()]
        named += [(left, left.effect or "an effect") for left in self.unsettled.values()]
        for each, name in named:
            view = each.known.effect
            if each.attention and (view.in_doubt or view.too_large):
                return f"{'receipt' if view.too_large else 'in doubt'}: {name}"
        return None

    def dealt_with(self, entity: Entity) -> list[str]:
        """Keys of effects that the entity may end with, whatever is on record of them: the author was told that they
        ended, or they were sent anew, or nobody waits for them."""
        names = {each.name: each.identity for each in self._effects}
        keys = {*self.ended, *(key for key, each in self.unsettled.items() if each.effect is None)}
        for slot, times in self.again.items():
            name, _, suffix = slot.partition("/")
            keys |= {Key.of(entity, names.get(name, name), suffix or None, number) for number in range(times)}
        return sorted(keys)

    def find_doubts(self, entity: Entity, on_record: dict[str, EffectView], now: datetime) -> list[Fence]:
        """Learn of doubts that stand on record, and that this run has not dealt with: attempts of workflow tasks that
        were lost, where the tasks that were made in their place took another way. A person settles them, but for those
        of effects that may be repeated: what is returned gives these up."""
        terms, given_up = all_terms(self._effects), []
        for key, view in on_record.items():
            effect, suffix, _ = Key(key).performance
            newest = Key.of(entity, effect, suffix, self.again.get(self._slot(slot_of(effect, suffix)), 0))
            known = terms.get(effect) if key == newest else None
            if known is not None and known.in_doubt.repeats:
                why = "its workflow task was lost, and the next one took another way"
                slot, token = slot_of(effect, suffix), view.token or ""
                given_up.append(
                    Fence(op=FenceOp.RESOLVE, key=key, effect=slot, token=token, status=EffectStatus.ABANDONED, why=why)
                )
            else:
                performance = None if known is None else (effect, suffix, known)
                self.unsettled[key] = found_on_record(view, now, performance)
        return given_up

    def carried(self) -> dict[str, Any]:
        """Its part of what the next run is handed."""
        unsettled = self.unsettled | {key: each.unsettled() for key, each in self.performances.items()}
        # A run may not have come to all that earlier runs did: it leaves an effect unsettled, or the database lost the
        # record of one, and what a person said of that has led it to another wait.
        done = set(self._performed)
        earlier = [each for each in self.performed_before or () if each not in done]
        if not unsettled:
            earlier = earlier[-REMEMBERED:]
        return {
            "again": self.again,
            "ended": self.ended,
            "retried": None if self.ended_since_retry is None else [*self.ended_since_retry],
            "unsettled": unsettled,
            "performed": [*earlier, *dict.fromkeys(self._performed)],
            "terms": all_terms(self._effects),
        }

    def _slot(self, slot: str) -> str:
        """Today's name of an effect with its suffix."""
        name, _, suffix = slot.partition("/")
        return slot_of(self._former.get(name, name), suffix)
