"""The pause that the other side requests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from activities.http.dates import date_of

LONGEST_PAUSE: Final = timedelta(days=1)
"""The longest pause that the other side can request."""


def pause_of(retry_after: str | None, now: datetime | None = None) -> timedelta | None:
    """The pause in `Retry-After` (RFC 9110, 10.2.3: seconds or a date), at most `LONGEST_PAUSE`; else None."""
    given = (retry_after or "").strip()
    if given.isascii() and given.isdigit():
        return min(timedelta(seconds=min(int(given[:12]), 10**9)), LONGEST_PAUSE)
    at = date_of(given)
    return None if at is None else max(min(at - (now or datetime.now(UTC)), LONGEST_PAUSE), timedelta(0))
