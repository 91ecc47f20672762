"""The effects of a run: those that are being performed, were left unsettled by the previous run, or ended without being
done."""

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
from perdure._workflow.sending import has_ended_again, may_go_again
from perdure.contracts.effects import Effect
from perdure.contracts.keys import Entity, Key, slot_of
from perdure.contracts.outcomes import Abandoned, DifferentInput, EffectStatus, NotPerformed, WasRefused
from perdure.errors import DeclarationError

REMEMBERED = 100
"""Limit of the performances, of their ends, and of the messages of earlier runs that a run passes on. A run that
continues from its snapshot repeats none, and its data must not grow with each new run."""
REASONS = 200_000
"""Limit of the characters of all reasons of ended effects that a run passes on: those of 100 effects at full length.
Each of more effects gets an equal share of it, because the next run must start."""


class Performing(Protocol):
    """A performance under way, for the other parts of its run.

    Attributes:
        slot: the effect's name, with its suffix.
        parked: whether the effect waits for a person to resolve it.
        attention: why a person is needed, if one is.
        may_end: whether the outcome of an attempt may still end the entity.
        settles: whether it only settles a doubt that was left, and no code of the author awaits it.
    """

    settles: bool

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
    def pausing(self) -> bool: ...
    @property
    def may_end(self) -> bool: ...
    @property
    def resolution(self) -> Resolution | None: ...
    @property
    def resolved(self) -> str | None: ...

    def status(self) -> EffectProgress:
        """The progress of the effect, for the query `status`."""

    def unsettled(self) -> Unsettled:
        """The data about the effect for the next run."""

    def resolve(self, resolution: Resolution) -> None:
        """Note that a person has resolved the effect."""

    def end_pause(self) -> None:
        """End a pause before the next step now, because a retry was requested."""

    def look_again(self) -> None:
        """Read the fence again, because a late outcome was recorded."""

    def take_back(self) -> None:
        """Withdraw an attempt that still waits for its turn, because the end was requested."""


class Ledger:
    """The effects of one run.

    Its slots contain the first name of an effect, as keys do: one run may be executed by workers of an older and of a
    newer build, and the older one does not know the new name of an effect.

    Attributes:
        again: how often each effect was sent anew, by slot.
        ended: effects that ended without being done, by key.
        ended_since_retry: keys of the effects that ended since the last request for a retry, oldest first; None =
            there was no request.
        unsettled: effects that an earlier run left under way, or that are only in the record, by key.
        terms: the terms of the effects in this run, by the names in their keys; empty if an older release began it.
        performances: the performances under way, by key.
        performed_before: slots of the effects whose performance ended in an earlier run, and that this run may
            repeat; None = not known.
        performed_more: whether an earlier run may have performed others to their end as well.
        refused: slots of the effects that were refused. Their next performance has a new key.
        ended_earlier: keys of the effects in `ended` that ended in an earlier run, and that this run has not performed.
    """

    def __init__(self, effects: Sequence[Effect[Any, Any]], carried: Carried) -> None:
        self._effects = effects
        self._first = {name: each.identity for each in effects for name in each.names}
        self.again: dict[str, int] = {}
        for slot, times in carried.again.items():
            self.again[self._slot(slot)] = max(times, self.again.get(self._slot(slot), 0))
        self.ended = {key: how.model_copy(update={"slot": self._today(key)}) for key, how in carried.ended.items()}
        self.ended_earlier = set(self.ended)
        self.ended_since_retry = None if carried.retried is None else dict.fromkeys(carried.retried)
        self.unsettled = dict(carried.unsettled)
        self.terms = dict(carried.terms)
        self.performances: dict[str, Performing] = {}
        known = carried.performed
        if known is None and carried.state is None:
            known = []
        self.performed_before = None if known is None else [self._slot(slot) for slot in known]
        self.performed_more = known is None or carried.performed_more
        self._performed: dict[str, None] = {}
        """Keys of the effects whose performance ended in this run, in the order of their first ends."""
        self.refused: set[str] = set()

    def new_key(self, entity: Entity, effect: Effect[Any, Any], suffix: str | None) -> Key:
        """The key of a performance that begins now. It is a new key if the last performance was refused."""
        slot = slot_of(effect.identity, suffix)
        if slot in self.refused and may_go_again(slot):
            self.refused.discard(slot)
            self.ended.pop(Key.of(entity, effect.identity, suffix, self.again.get(slot, 0)), None)
            self.again[slot] = self.again.get(slot, 0) + 1
        return Key.of(entity, effect.identity, suffix, self.again.get(slot, 0))

    def repeat_end(self, performance: Performing) -> HowNotPerformed | None:
        """How the effect ended in an earlier run without being done, so that it ends in the same way again; else
        None."""
        how = self.ended.get(performance.key)
        self.ended_earlier.discard(performance.key)
        if how is not None:
            slot = first_slot_of(performance.key)
            if not may_go_again(slot):
                has_ended_again(slot)
                self._note_since_retry(performance.key)
            self.settled(performance)
            if how.kind == WasRefused.__name__:
                self.refused.add(slot)
        return how

    def begin(self, performance: Performing) -> None:
        """Note that a performance begins."""
        key = performance.key
        self.ended.pop(key, None)
        self.ended_earlier.discard(key)
        self.performances[key] = performance
        self.unsettled.pop(key, None)  # not sooner, so that its doubt is always in one of the two

    def note_end(self, performance: Performing, ended: NotPerformed) -> None:
        """Note that an effect ends without being done."""
        if isinstance(ended, WasRefused):
            self.refused.add(first_slot_of(performance.key))
        self.ended[performance.key] = HowNotPerformed(
            slot=performance.slot, kind=type(ended).__name__, why=ended.why, in_doubt=ended.in_doubt
        )
        self._note_since_retry(performance.key)

    def retry_begins(self) -> None:
        """Note that a requested retry begins."""
        self.ended_since_retry = {}

    def _note_since_retry(self, key: str) -> None:
        if self.ended_since_retry is not None:
            self.ended_since_retry[key] = None

    def given_up(self) -> str | None:
        """Key of an effect that a retry would not call, if the retry would call no other effect either; else None.

        Before the first retry, the effects that `run` comes back to are not known. After a retry, only the effects that
        ended again count, because `run` has left the earlier ones behind.
        """
        since = self.ended_since_retry
        count = [(key, how) for key, how in self.ended.items() if not since or key in since]
        uncalled = [key for key, how in count if how.kind in (Abandoned.__name__, DifferentInput.__name__)]
        return uncalled[0] if uncalled and len(uncalled) == len(count) else None

    def settled(self, performance: Performing) -> None:
        """Note that the author's code has the answer."""
        self._performed[performance.key] = None

    def was_performed(self, key: str) -> bool:
        """Whether this run has performed an effect to its end under this key."""
        return key in self._performed

    def leave_unsettled(self, performance: Performing) -> None:
        """Leave a performance without an answer to the next run, or to the end of this one."""
        self.unsettled[performance.key] = performance.unsettled()

    def over(self, performance: Performing) -> None:
        """Note that a performance is not under way any more."""
        del self.performances[performance.key]

    def means(self, slot: str | None, key: str) -> bool:
        """Whether a person who names `slot` means the effect of `key`: by the key, or by one of the effect's names. A
        worker of another build may have accepted the update, and have another name for the effect."""
        return slot in (None, key) or self._slot(slot) == first_slot_of(key)

    def send_anew(self, key: str) -> str:
        """Give the next performance of an ended effect a new key. Returns the slot."""
        slot = first_slot_of(key)
        self.refused.discard(slot)
        self.again[slot] = self.again.get(slot, 0) + 1
        return self.ended.pop(key).slot

    def goes_first(self) -> None:
        """Note that no earlier run came so far: an effect began without a record, and no record was lost."""
        self.performed_more = False
        if self.performed_before is None:
            self.performed_before = []

    def take_terms(self, terms: dict[str, Terms] | None) -> None:
        """Take the terms of the worker that recorded the entity. They hold for the whole run."""
        self.terms = terms or {}

    @property
    def doubts_left(self) -> dict[str, Unsettled]:
        """The doubts of the previous run that this run has not come back to, by key."""
        return {key: each for key, each in self.unsettled.items() if each.known.effect.in_doubt}

    @property
    def attention(self) -> str | None:
        """Why an effect needs a person, because it is parked or its receipt does not fit; else None."""
        effects: list[Performing | Unsettled] = [*self.performances.values(), *self.unsettled.values()]
        parked = (each.attention for each in effects if each.known.effect.in_doubt or each.known.effect.too_large)
        return next((why for why in parked if why), None)

    @property
    def attention_word(self) -> str | None:
        """The same by names alone, as the search attribute has it: by the first names, which are those of any build. A
        name that changed in a run would be one more command, and no build of another name could replay it."""
        named: list[tuple[Performing | Unsettled, str]] = [
            (it, it.effect.identity) for it in self.performances.values()
        ]
        named += [(left, left.effect or "an effect") for left in self.unsettled.values()]
        for each, name in named:
            view = each.known.effect
            if each.attention and (view.in_doubt or view.too_large):
                return f"{'receipt' if view.too_large else 'in doubt'}: {name}"
        return None

    def dealt_with(self, entity: Entity) -> list[str]:
        """Keys of effects that do not delay the entity's end, whatever their record: the author's code knows of their
        doubt, or they were sent anew, or no code waits for them."""
        known = (key for key, how in self.ended.items() if how.in_doubt or how.kind == Abandoned.__name__)
        keys = {*known, *(key for key, each in self.unsettled.items() if each.effect is None)}
        for slot, times in self.again.items():
            name, _, suffix = slot.partition("/")
            keys |= {Key.of(entity, name, suffix or None, number) for number in range(times)}
        return sorted(keys)

    def find_doubts(self, on_record: dict[str, EffectView], now: datetime) -> list[Fence]:
        """Note doubts that are on record and that this run neither performs nor has dealt with: attempts of lost
        workflow tasks, whose replacements took another way, or have not sent the effect anew. A person settles them,
        except those of effects that may be repeated. The returned writes give these up."""
        terms, given_up = all_terms(self._effects), []
        for key, view in on_record.items():
            if key in self.performances:
                continue
            self.ended.pop(key, None)
            self.ended_earlier.discard(key)
            effect, suffix, _ = Key(key).performance
            if terms[effect].in_doubt.repeats:
                why = "its workflow task was lost, and the next one took another way"
                slot, token = slot_of(effect, suffix), view.token or ""
                given_up.append(
                    Fence(op=FenceOp.RESOLVE, key=key, effect=slot, token=token, status=EffectStatus.ABANDONED, why=why)
                )
            else:
                self.unsettled[key] = found_on_record(view, now, (effect, suffix))
        return given_up

    def check_declared(self, key: str) -> None:
        """Raises DeclarationError if this code declares no effect with the key."""
        effect, _, _ = Key(key).performance
        if all(each.identity != effect for each in self._effects):
            raise DeclarationError("this code does not declare it")

    def carried(self) -> dict[str, Any]:
        """The effects' part of the data for the next run."""
        unsettled = self.unsettled | {key: each.unsettled() for key, each in self.performances.items()}
        # A run may not have come to all effects of earlier runs: it leaves an effect unsettled, or the database lost
        # the record of one, and a person's resolution of that has led the run to another wait.
        performed = dict.fromkeys(first_slot_of(key) for key in self._performed)
        earlier = [each for each in self.performed_before or () if each not in performed]
        ended = dict(self.ended)
        if not unsettled:
            earlier = earlier[-REMEMBERED:]
            # The end of the entity needs those in doubt.
            passed = [key for key, how in ended.items() if key in self.ended_earlier and not how.in_doubt]
            for key in passed[:-REMEMBERED]:
                del ended[key]
        return {
            "again": self.again,
            "ended": _with_short_reasons(ended),
            "retried": None if self.ended_since_retry is None else [*self.ended_since_retry],
            "unsettled": unsettled,
            "performed": [*earlier, *performed],
            "performed_more": self.performed_more,
            "terms": all_terms(self._effects),
        }

    def _slot(self, slot: str) -> str:
        """The slot with the first name of the effect."""
        name, _, suffix = slot.partition("/")
        return slot_of(self._first.get(name, name), suffix)

    def _today(self, key: str) -> str:
        """The effect of a key, with its suffix and under today's name."""
        effect, suffix, _ = Key(key).performance
        return slot_of(next((each.name for each in self._effects if each.identity == effect), effect), suffix)


def _with_short_reasons(ended: dict[str, HowNotPerformed]) -> dict[str, HowNotPerformed]:
    share = REASONS // max(len(ended), 1)
    return {
        key: how if len(how.why) <= share else how.model_copy(update={"why": f"{how.why[:share]}..."})
        for key, how in ended.items()
    }


def first_slot_of(key: str) -> str:
    """The slot of the effect of a key."""
    effect, suffix, _ = Key(key).performance
    return slot_of(effect, suffix)
