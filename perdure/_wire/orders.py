"""The orders of a workflow to its activities about one effect, and their answers."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from perdure._wire.terms import Terms
from perdure._wire.writes import EffectView, Write


class CallResult(StrEnum):
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
    UNANSWERED = "unanswered"
    """The look-up could not answer."""
    UNREAD = "unread"
    """No look-up: the fence could not be read."""


class AttemptOrder(BaseModel):
    """One attempt to make.

    Attributes:
        write: the write to commit before the first byte. The activity adds token and digest.
        input: the effect's input as JSON data.
        number: number of this attempt, from 1.
        timeout: seconds that the call may take.
        progress: the last progress of an earlier attempt.
        then: a move to commit with the outcome, if the effect is done.
        gives_way: whether the next attempt does not wait for the end of this one; None = by the contract's doubt
            policy.
        expires_at: no call begins after this time.
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
        write: the read of the fence before the look-up.
        input: the effect's input as JSON data.
        visibility_delay: seconds after the deadline until a miss counts.
        timeout: seconds that the look-up may take.
    """

    write: Write
    input: Any
    visibility_delay: float
    timeout: float


class StepOrder(BaseModel):
    """One step to take.

    Attributes:
        write: the read of the gate before the step: whether the entity is open here.
        input: the step's input as JSON data.
        timeout: seconds that the step may take.
    """

    write: Write
    input: Any
    timeout: float


class Report(BaseModel):
    """The end of an attempt, a look-up or a step.

    Attributes:
        token: token of this execution.
        effect: the fence's present view, if it was read.
        recorded: whether the outcome is in the fence.
        begun: whether the attempt was recorded; False if that is not known.
        retry_after: seconds of the pause that the other side requests.
        counts: whether `RetryPolicy.maximum_attempts` counts the attempt.
        made: False = no call was made, although nothing failed at the other side. No pause grows for it.
        progress: the last value that the body passed to `heartbeat`.
        believable: whether a miss counts: no attempt could be in flight when the look-up began.
        state: the state that the mirror shows; None = not known.
        version: version of the newest write in the mirror.
        late: whether the record shows a newer state than that of the order.
        moved: whether the order's `then` is on record.
        terms: the effect's terms in the worker that made this, if the effect is not settled.
    """

    result: CallResult
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
    late: bool = False
    moved: bool = False
    terms: Terms | None = None
