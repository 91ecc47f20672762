"""The pause that the other side requests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

LONGEST_PAUSE: Final = timedelta(days=1)
"""The longest pause that the other side can request."""


def pause_of(retry_after: str | None, now: datetime | None = None) -> timedelta | None:
    """The pause in `Retry-After` (RFC 9110, 10.2.3: seconds or a date), at most `LONGEST_PAUSE`; else None."""
    given = (retry_after or "").strip()
    if given.isascii() and given.isdigit():
        return min(timedelta(seconds=min(int(given[:12]), 10**9)), LONGEST_PAUSE)
    try:
        at = parsedate_to_datetime(given)
    except (ValueError, TypeError):
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max(min(at - (now or datetime.now(UTC)), LONGEST_PAUSE), timedelta(0))
