"""Dates as the other side writes them."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def date_of(text: str) -> datetime | None:
    """The date in `text` (RFC 9110, 5.6.7, which is that of mail), without a zone in UTC; None if there is none.

    >>> date_of("Sat, 21 Nov 2026 12:00:30 GMT").isoformat()
    '2026-11-21T12:00:30+00:00'
    """
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):  # the last one: a year or a zone that no integer of C holds
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
