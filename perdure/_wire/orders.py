"""What workflow and activities say to each other about one effect."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from perdure._wire.terms import Terms
from perdure._wire.writes import EffectView, Write


class Said(StrEnum):
    """How an attempt or a look-up ended."""

    DONE = "done"
    NOT_DONE = "not_done"
    REFUSED = "refused"
    IN_DOUBT = "in_doubt"
    STANDING = "standing"
    """No call: the fence's record stands."""
    DIFFERENT = "different"
    """No call: the record was made for other input bytes."""
    OVER = "over"
    """No call: the entity is final, or was restarted."""
    MISS = "miss"
    """The look-up did not find it."""
    MUTE = "mute"
    """The look-up could not answer."""
    UNREAD = "unread"
    """Nobody was asked: the fence could not be read."""


class AttemptOrder(BaseModel):
    """One attempt to make.

    Attributes:
        write: what to commit before the first byte; token and digest are filled in by the activity.
        input: the effect's input as JSON data.
        number: which attempt this is, from 1.
        timeout: seconds that the call may take.
        progress: what the attempt before last reported.
        then: what else to commit with the outcome, if it is done.
        gives_way: the next attempt does not wait for this one's end; None = as the contract's doubt policy has it.
        expires_at: from then on it is of no use: no call is begun.
    """

    write: Write
    input: Any
    number: int
    timeout: float
    progress: Any = None
    then: Write | None = None
    gives_way: bool | None = None
    expires_at: datetime | None = None


class LookupOrder(BaseModel):
    """One look-up to make.

    Attributes:
        write: what to read before asking.
        input: the effect's input as JSON data.
        visibility_delay: seconds after the deadline before which a miss does not count.
        timeout: seconds that the look-up may take.
    """

    write: Write
    input: Any
    visibility_delay: float
    timeout: float


class StepOrder(BaseModel):
    """One step to take.

    Attributes:
        write: what to read before: whether the entity is open here.
        input: the step's input as JSON data.
        timeout: seconds that it may take.
    """

    write: Write
    input: Any
    timeout: float


class Report(BaseModel):
    """How it ended.

    Attributes:
        token: of this execution.
        effect: what the fence knows now, where that was read.
        recorded: whether the outcome is in the fence.
        begun: whether the attempt was put on record; False where that is not known.
        retry_after: seconds that the other side asks to be left alone.
        counts: whether it is one of those that `RetryPolicy.maximum_attempts` allows.
        made: False = no call was made though nothing failed at the other side: no pause grows for it, either.
        progress: what the body last gave to `heartbeat`.
        believable: for a miss: whether nothing could be in flight any more when it was asked.
        state: the standing state, for `OVER`.
        version: of the newest write that the mirror knows.
        moved: whether the order's `then` is on record.
        terms: of the effect, in the worker that made this, where it is not settled.
    """

    said: Said
    token: str
    effect: EffectView | None = None
    receipt: Any = None
    why: str | None = None
    recorded: bool = True
    begun: bool = True
    retry_after: float | None = None
    counts: bool = True
    made: bool = True
    progress: Any = None
    believable: bool = False
    state: str | None = None
    version: int = 0
    moved: bool = False
    terms: Terms | None = None
