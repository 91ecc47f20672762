"""The meaning of an answer's status for the job: one table for all of them.

Sources: RFC 9110, 15; RFC 6585, 4 (429); RFC 8470, 5.2 (425);
draft-ietf-httpapi-idempotency-key-header, 2.6 (409; not 422, since all attempts have the same body).
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from enum import Enum
from typing import Final

from perdure import InDoubt, NotDone, Refused

OURS_PAUSE: Final = timedelta(minutes=5)
"""Until the next attempt where only an operator can correct what is wrong."""


class Verdict(Enum):
    """The meaning of a status for the job."""

    DONE = "done"
    NOT_DONE = "not done; again later"
    AT_WORK = "an attempt with the same key is being worked on"
    OURS = "not done, and nothing will be until an operator acts; again after `OURS_PAUSE`"
    REFUSED = "refused: the same request will never be accepted"
    REFUSED_FIRST = "refused; of a repeat it does not show what an earlier attempt did"
    MOVED = "as that: the page is elsewhere, and a redirect could lead anywhere"
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
    401: Verdict.OURS,  # 15.5.2: the credentials are wrong, or a clock is
    403: Verdict.OURS,  # 15.5.4
    404: Verdict.REFUSED_FIRST,  # 15.5.5: perhaps nobody who knows the key was asked
    405: Verdict.REFUSED_FIRST,  # 15.5.6
    407: Verdict.OURS,  # 15.5.8
    408: Verdict.NOT_DONE,  # 15.5.9: the request did not come in whole
    409: Verdict.AT_WORK,  # the draft, 2.6: a retry while the original request is being processed
    410: Verdict.REFUSED_FIRST,  # RFC 9110, 15.5.11: perhaps an earlier attempt has removed it
    412: Verdict.REFUSED_FIRST,  # 15.5.13: perhaps an earlier attempt has changed it
    421: Verdict.REFUSED_FIRST,  # 15.5.20: another server was asked
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
    status: int,
    *,
    first: bool,
    doubted: bool = False,
    pause: timedelta | None = None,
    not_done: Collection[int] = (),
) -> NotDone | Refused | InDoubt | None:
    """The exception that reports a status; None where it was done.

    Args:
        first: no attempt was begun before this one.
        doubted: an attempt before this one may have been done, and a refusal would count as its answer too.
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
        case Verdict.OURS:
            return NotDone(answered, retry_after=pause or OURS_PAUSE)
        case Verdict.REFUSED_FIRST | Verdict.MOVED if doubted:
            return InDoubt(f"{answered}, and an earlier attempt may have been done")
        case Verdict.REFUSED | Verdict.REFUSED_FIRST:
            return Refused(answered)
        case Verdict.MOVED:
            return Refused(f"{answered}: the page has moved, so change the job type's URL")
        case Verdict.DOUBT:
            return InDoubt(answered)


def ending_of_reading(status: int, answered: str, pause: timedelta | None) -> NotDone | Refused | None:
    """The same of a request that only reads, so that it leaves no doubt.

    Args:
        answered: the reason.
        pause: the pause that the page requests.
    """
    match verdict(status):
        case Verdict.DONE:
            return None
        case Verdict.REFUSED | Verdict.REFUSED_FIRST | Verdict.MOVED:
            return Refused(answered)
        case Verdict.OURS:
            return NotDone(answered, retry_after=pause or OURS_PAUSE)
        case _:
            return NotDone(answered, retry_after=pause)
