"""What one run of a lifecycle hands to the next."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from perdure._wire.known import Known
from perdure._wire.requests import OperatorRequest
from perdure._wire.terms import DoubtTerms, Terms
from perdure._wire.writes import EffectView

CARRIED = "perdure"
"""Memo in which a run finds what it carries on from."""


class HowNotPerformed(BaseModel):
    """An effect that ended without being done, as it is carried to the next run; `slot` = its name and suffix."""

    slot: str
    kind: str
    why: str
    in_doubt: bool = False


class Unsettled(BaseModel):
    """An effect that is being performed, as it is carried to the next run.

    Attributes:
        seen_at: when the fence's view of it was taken.
        attention: why a person is wanted, where it is parked.
        next_at: when the pause that it is in ends: a new run does not begin it anew.
        effect: its first name; None where only the fence's record of it is known.
        suffix: that tells several performances of it apart.
        given: its input, as JSON data.
        own: what this performance has in place of the contract's terms.
    """

    known: Known
    seen_at: datetime | None = None
    progress: Any = None
    since: int | None = None
    attention: str | None = None
    next_at: datetime | None = None
    effect: str | None = None
    suffix: str | None = None
    given: Any = None
    own: Terms | None = None


def found_on_record(view: EffectView, at: datetime, performance: tuple[str, str | None, Terms] | None) -> Unsettled:
    """A doubt that only the record knows of. It waits for a person, unless `run` comes back to it: its input is not on
    record, so the policy that it was performed under can't settle it.

    Args:
        at: when the view was taken.
        performance: its effect's first name, its suffix and its terms; None where nobody is to wait for it.
    """
    unsettled = Unsettled(known=Known(effect=view), seen_at=at)
    if performance is None:
        return unsettled
    effect, suffix, terms = performance
    waits = terms.model_copy(update={"in_doubt": DoubtTerms(kind="escalate")})
    return unsettled.model_copy(update={"effect": effect, "suffix": suffix, "own": waits})


class Remembered(BaseModel):
    """What stands in the mirror beside the snapshot, for the run that goes on from there when this one is lost with
    Temporal; see `Carried`."""

    again: dict[str, int] = Field(default_factory=dict)
    ended: dict[str, HowNotPerformed] = Field(default_factory=dict)
    cancel: OperatorRequest | None = None
    cancelling: bool = False


class Carried(BaseModel):
    """What one run hands to the next, by memo; also what the relay gives to the first, and to one that goes on from
    the mirror's record.

    Attributes:
        born: the mirror has a row for this entity already.
        again: how often each effect was to be sent anew, by name and suffix.
        ended: effects that ended without being done, by key.
        unsettled: effects that are being performed, by key.
        performed: effects whose performance ended in an earlier run, and that the next may repeat, by name and suffix;
            None = not known.
        retry: a retry that was granted, and that nothing was done about yet.
        retried: keys of the effects that ended since somebody last asked for a retry; None = nobody has.
        cancel: somebody asked for the end, while a doubt had to be settled first.
        cancelling: that has ended `run`, and what the author has for that was under way.
        began: when the first run of this chain was started, in microseconds.
        started_at: when the entity was, in this generation; None = with the run that is given this.
        gaps: when this was made, the database had lost commits since the entity was started, or held attempts of a
            run that this one knows nothing of: an effect whose record is lost may have been performed all the same,
            whenever the run comes to it.
        heard: ordinal of the last message from the outbox.
        expects: that of the last one that is on its way again: `run` begins when it was heard.
        terms: of the effects, for the whole run, by the name that their keys carry; empty where an older release
            wrote this.
    """

    born: bool = True
    generation: int = 0
    version: int = 0
    state: str | None = None
    since: datetime | None = None
    snapshot: Any = None
    again: dict[str, int] = Field(default_factory=dict)
    ended: dict[str, HowNotPerformed] = Field(default_factory=dict)
    unsettled: dict[str, Unsettled] = Field(default_factory=dict)
    performed: list[str] | None = None
    retry: OperatorRequest | None = None
    retried: list[str] | None = None
    cancel: OperatorRequest | None = None
    cancelling: bool = False
    began: int | None = None
    started_at: datetime | None = None
    gaps: bool = False
    heard: int = 0
    expects: int = 0
    terms: dict[str, Terms] = Field(default_factory=dict)
