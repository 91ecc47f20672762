"""The data that one run of a lifecycle passes to the next."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from perdure._wire.known import Known
from perdure._wire.requests import OperatorRequest
from perdure._wire.terms import DoubtTerms, OwnTerms, Terms
from perdure._wire.writes import EffectView

CARRIED = "perdure"
"""Name of the memo that holds the data of the previous run."""


class HowNotPerformed(BaseModel):
    """An effect that ended without being done, for the next run; `slot` = its name and suffix."""

    slot: str
    kind: str
    why: str
    in_doubt: bool = False


class Unsettled(BaseModel):
    """An effect that is being performed, for the next run.

    Attributes:
        seen_at: time at which the fence's view of the effect was read.
        attention: why the effect needs a person, if it is parked.
        next_at: end of the present pause, which a new run does not begin anew.
        effect: the first name of the effect; None if only the fence's record is known.
        suffix: the suffix of this performance.
        given: the input of the effect, as JSON data.
        own: terms of this performance in place of the contract's.
        expires_at: no attempt begins after this time.
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
    own: OwnTerms | None = None
    expires_at: datetime | None = None


def found_on_record(view: EffectView, at: datetime, performance: tuple[str, str | None] | None) -> Unsettled:
    """A doubt that is only in the record. It waits for a person, unless `run` performs the effect again: the input is
    not on record, so the effect's policy cannot settle the doubt.

    Args:
        at: time at which the view was read.
        performance: the effect's first name and suffix; None if nobody waits for the effect.
    """
    unsettled = Unsettled(known=Known(effect=view), seen_at=at)
    if performance is None:
        return unsettled
    effect, suffix = performance
    waits = OwnTerms(in_doubt=DoubtTerms(kind="escalate"))
    return unsettled.model_copy(update={"effect": effect, "suffix": suffix, "own": waits})


class Remembered(BaseModel):
    """The data in the mirror beside the snapshot, for a run that continues after Temporal lost this one; see
    `Carried`."""

    again: dict[str, int] = Field(default_factory=dict)
    ended: dict[str, HowNotPerformed] = Field(default_factory=dict)
    cancel: OperatorRequest | None = None
    cancelling: bool = False
    why: str | None = None
    came_from: str | None = None
    waited_until: datetime | None = None


class Carried(BaseModel):
    """The data that one run passes to the next, in the memo. The relay gives the same to the first run, and to a run
    that continues from the mirror's record.

    Attributes:
        has_record: whether the mirror has a row for this entity already.
        again: how often each effect was sent with a new key, by name and suffix.
        ended: effects that ended without being done, by key.
        unsettled: effects that are being performed, by key.
        performed: effects whose performance ended in an earlier run, and that the next run may repeat, by name and
            suffix; None = not known.
        performed_more: whether an earlier run may have performed others to their end as well.
        retry: a retry that was granted and not used yet.
        retry_of: the only effect that it is for, by its first name and its suffix; None = of all.
        retried: keys of the effects that ended since the last request for a retry; None = there was no request.
        cancel: a request for the end, which waits for a doubt to be settled.
        cancelling: whether that request has stopped `run`, and the author's `cancelling` was under way.
        why: why it is in `state`.
        came_from: the state before `state`, if that needs a person: it may lead back to those that `run` has passed.
        began: start of the first run of this chain, in microseconds.
        waited_until: the latest time for which the author's code has waited, and which was over. Temporal's clock may
            have gone back since.
        started_at: start of the entity in this generation; None = the start of the run that receives this.
        born: see `Write`.
        gaps: whether the database had lost commits since the start of the entity, or held attempts of an unknown run,
            when this was written. An effect without a record may then have been performed all the same, however late
            the run comes to it.
        other_way_since: earliest time, in microseconds, at which a lost workflow task may have taken another way: the
            database has lost the record of an inline effect, which ended otherwise for this chain, or an effect expired
            between two attempts of a task; None = none has.
        recovered: whether the first run of this chain continued from the record of an earlier chain.
        last_message: ordinal of the last message from the outbox.
        accepted: ids of the newest messages up to it, oldest first.
        expects: ordinal of the last message that is delivered again: `run` begins after it has arrived.
        indexed: the states that needed a person when the run was started, where the search attribute for that is
            registered; None = the run shows nothing there. It is carried, since a deploy may change the declaration.
        terms: the terms of the effects, for the whole run, by the name in their keys; empty if an older release wrote
            this.
    """

    has_record: bool = True
    generation: int = 0
    version: int = 0
    state: str | None = None
    since: datetime | None = None
    snapshot: Any = None
    again: dict[str, int] = Field(default_factory=dict)
    ended: dict[str, HowNotPerformed] = Field(default_factory=dict)
    unsettled: dict[str, Unsettled] = Field(default_factory=dict)
    performed: list[str] | None = None
    performed_more: bool = False
    retry: OperatorRequest | None = None
    retry_of: str | None = None
    retried: list[str] | None = None
    cancel: OperatorRequest | None = None
    cancelling: bool = False
    why: str | None = None
    came_from: str | None = None
    began: int | None = None
    waited_until: datetime | None = None
    started_at: datetime | None = None
    born: datetime | None = None
    gaps: bool = False
    other_way_since: int | None = None
    recovered: bool = False
    last_message: int = 0
    accepted: list[str] = Field(default_factory=list)
    expects: int = 0
    indexed: list[str] | None = None
    terms: dict[str, Terms] = Field(default_factory=dict)
