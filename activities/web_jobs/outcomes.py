"""The meaning of an answer's status for the job: one table for all of them.

Sources: RFC 9110, 15; RFC 6585, 4 (429); RFC 8470, 5.2 (425);
draft-ietf-httpapi-idempotency-key-header, 2.6 (409, 422).
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from enum import Enum
from typing import Final

from perdure import InDoubt, NotDone, Refused


class Verdict(Enum):
    """The meaning of a status for the job."""

    DONE = "done"
    NOT_DONE = "not done; again later"
    AT_WORK = "an attempt with the same key is being worked on"
    REFUSED = "refused: the same request will never be accepted"
    MOVED = "refused: the page is elsewhere, and a redirect could lead anywhere"
    DOUBT = "in doubt: the page may have done it"


_CLASSES: Final = {
    2: Verdict.DONE,  # RFC 9110, 15.3
    3: Verdict.DOUBT,  # 15.4: pages that answer a form so have done their work
    4: Verdict.REFUSED,  # 15.5
    5: Verdict.DOUBT,  # 15.6: the status does not show how far it came
}
TABLE: Final = {
    301: Verdict.MOVED,  # RFC 9110, 15.4.2: use the new URL
    307: Verdict.MOVED,  # 15.4.8: the method stays, so nothing was done here
    308: Verdict.MOVED,  # 15.4.9
    408: Verdict.NOT_DONE,  # 15.5.9: the request did not come in whole
    409: Verdict.AT_WORK,  # the draft, 2.6: a retry while the original request is being processed
    425: Verdict.NOT_DONE,  # RFC 8470, 5.2: not processed, since it might be a replay
    429: Verdict.NOT_DONE,  # RFC 6585, 4
}
"""Statuses that differ from the rest of their class."""


def verdict(status: int, not_done: Collection[int] = ()) -> Verdict:
    """The meaning of `status` for the job.

    Args:
        not_done: statuses from 500 on by which this page reports that it did nothing.
    """
    if status in not_done:
        return Verdict.NOT_DONE
    return TABLE.get(status) or _CLASSES.get(status // 100, Verdict.DOUBT)


def ending(
    status: int, *, first: bool, pause: timedelta | None = None, not_done: Collection[int] = ()
) -> NotDone | Refused | InDoubt | None:
    """The exception that reports a status; None where it was done.

    Args:
        first: no attempt was begun before this one.
        pause: the pause that the page requests.
    """
    answered = f"answered {status}"
    match verdict(status, not_done):
        case Verdict.DONE:
            return None
        case Verdict.NOT_DONE:
            return NotDone(answered, retry_after=pause)
        case Verdict.AT_WORK:
            if first:
                return NotDone(answered, retry_after=pause)
            return InDoubt(f"{answered}: it is at work on an earlier attempt")
        case Verdict.REFUSED:
            return Refused(answered)
        case Verdict.MOVED:
            return Refused(f"{answered}: the page has moved, so change the job type's URL")
        case Verdict.DOUBT:
            return InDoubt(answered)
