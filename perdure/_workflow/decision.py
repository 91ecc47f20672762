"""Decides the next step for one effect: a pure function of its contract and of the known facts. No I/O, no clock.

The workflow owns the attempts (invariant 3): every attempt and look-up is one activity, made once, and the
workflow calls this function after each.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias, assert_never

from perdure._wire.known import NOW, Known
from perdure._wire.terms import Terms
from perdure.contracts.effects import Effect
from perdure.contracts.outcomes import EffectStatus
from perdure.contracts.policies import AskFirst, Dedupe, DoubtPolicy, Escalate, Repeat

_Terms: TypeAlias = Effect[Any, Any] | Terms
SOON = timedelta(seconds=1)
_DOUBLINGS, _OF_MANY = 4, 8
"""How often the pause between two look-ups doubles; more often if their number has no limit."""


@dataclass(frozen=True, slots=True)
class Again:
    """Make an attempt after a pause. It may follow an attempt in doubt that began `within` that time.

    The fence checks that by the database's clock, because an attempt may wait long for a worker, or for its turn.
    """

    pause: timedelta
    within: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the look-up after a pause."""

    pause: timedelta


@dataclass(frozen=True, slots=True)
class Look:
    """Read the fence after a pause: the attempt on record may still run, and does not count as lost yet."""

    pause: timedelta


@dataclass(frozen=True, slots=True)
class Record:
    """Record that the effect was not done, after enough misses that count."""

    why: str


@dataclass(frozen=True, slots=True)
class Park:
    """Read the fence after a pause, and wait for a person if the record has not changed."""

    pause: timedelta


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing is left to do. `expired`, `gave_up` and `refused` are reasons that the status does not show."""

    status: EffectStatus
    expired: bool = False
    gave_up: bool = False
    refused: bool = False
    different: bool = False


Decision: TypeAlias = Again | Ask | Look | Record | Park | Settled


def decide(
    effect: Effect[Any, Any],
    known: Known,
    *,
    now: datetime,
    expires_at: datetime | None = None,
    ending: bool = False,
    luck: float = 0.0,
) -> Decision:
    """The next step for `effect`.

    Args:
        ending: whether the end was requested. A lost workflow task may have begun an attempt without this run, so the
            fence is read before the effect is left.
        luck: a number in [-1, 1] that places pauses inside their jitter.
    """
    status = known.effect.status
    terms = known.terms or effect
    if status in (EffectStatus.DONE, EffectStatus.REFUSED, EffectStatus.ABANDONED):
        return Settled(status)
    if known.different:
        return Settled(status, different=True)
    expired = expires_at is not None and now >= expires_at
    if (expired or ending) and not known.read:
        return Look(NOW)
    # Not by the time at which a run comes here: the attempts that failed stay as they are, and a lost task may have
    # given up in time.
    if not known.effect.in_doubt and _is_spent(terms, known):
        return Settled(status, gave_up=True)
    if expired:
        return Settled(status, expired=True)
    if known.effect.in_doubt:
        if known.last is EffectStatus.REFUSED:
            return _refused_in_doubt(terms.doubt, terms, known)
        return _in_doubt(terms.doubt, terms, known, luck)
    return Again(_pause(terms, known, luck))


def _refused_in_doubt(policy: DoubtPolicy[Any, Any], terms: _Terms, known: Known) -> Decision:
    """A refusal also answers an earlier attempt if the other side drops repeats and that attempt has ended. The call
    that settles it is made regardless of the number of failures."""
    if isinstance(policy, Dedupe) and known.in_flight > NOW:
        within = policy.window - policy.margin - terms.timeout
        if known.in_doubt_for + known.in_flight < within:
            return Again(known.in_flight, within)
    return Settled(known.effect.status, refused=True)


def _in_doubt(policy: DoubtPolicy[Any, Any], terms: _Terms, known: Known, luck: float) -> Decision:
    if (
        isinstance(policy, (Repeat, Dedupe))
        and known.effect.status is EffectStatus.ATTEMPTING
        and known.in_flight > NOW
    ):
        # Another execution of the same attempt, as when a message made the workflow task run again.
        return Look(min(known.in_flight, SOON))
    # A doubt alone never leads to giving up. A definite no may be the last attempt allowed, although an earlier attempt
    # is in doubt.
    spent = known.last is EffectStatus.NOT_DONE and _is_spent(terms, known)
    match policy:
        case Repeat():
            return Settled(known.effect.status, gave_up=True) if spent else Again(_pause(terms, known, luck))
        case Dedupe(window, margin, otherwise):
            pause, within = _pause(terms, known, luck), window - margin - terms.timeout
            fits = not spent and known.in_doubt_for + pause < within
            return Again(pause, within) if fits else _in_doubt(otherwise, terms, known, luck)
        case AskFirst(otherwise=otherwise):
            if policy.tries is not None and known.unanswered >= policy.tries:
                return _in_doubt(otherwise, terms, known, luck)
            if known.misses >= policy.misses:
                return Record(f"{policy.lookup.name} looked {known.asked} times and did not find it")
            return Ask(_until_next_question(policy, known))
        case Escalate():
            return Park(max(known.in_flight, NOW))
        case _:
            assert_never(policy)


def _is_spent(terms: _Terms, known: Known) -> bool:
    """Whether the maximum number of attempts has failed."""
    return terms.retry.maximum_attempts is not None and known.failures - known.spared >= terms.retry.maximum_attempts


def _pause(terms: _Terms, known: Known, luck: float) -> timedelta:
    if known.unmade:
        return SOON
    if not known.failures:
        return NOW
    return max(terms.retry.pause(known.failures, luck), known.retry_after or NOW)


def _until_next_question(policy: AskFirst[Any, Any], known: Known) -> timedelta:
    """Zero for the first look-up, then growing pauses, with a look-up at the time when a miss begins to count."""
    if not known.asked:
        return NOW
    # After a miss that counts, the answer is near.
    doublings = _OF_MANY if policy.tries is None and not known.misses else _DOUBLINGS
    pause = policy.every * (1 << min(known.asked - 1, doublings))
    believable = known.in_flight + policy.visibility_delay
    return min(pause, believable) if believable > NOW else pause
