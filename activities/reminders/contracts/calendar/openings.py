"""When something that is due may be sent: its window, less the patient's quiet hours."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from activities.reminders.contracts.calendar.zones import instant, last_instant, reads, zone_of
from activities.reminders.contracts.plan import Opening, QuietHours

_DAY = timedelta(days=1)


def openings(at: datetime, window: timedelta, quiet: QuietHours | None, zone: ZoneInfo | str) -> tuple[Opening, ...]:
    """The parts of the `window` that begins at `at` in which the patient may be disturbed, in order, in UTC.

    Where a clock change makes it doubtful whether it is quiet, it is: quiet hours begin the first time that their
    start is, and end the last time that their end is. If it is quiet the whole window, there is no opening.

    Raises:
        ValueError: there is no such zone, or `at` has no offset.
    """
    if at.tzinfo is None:
        raise ValueError(f"{at.isoformat()} has no offset: give an instant, such as {at.isoformat()}+00:00")
    start, end = at.astimezone(UTC), at.astimezone(UTC) + window
    place = zone_of(zone) if isinstance(zone, str) else zone
    found: list[Opening] = []
    for night in _nights(start, end, quiet, place):
        if night.start >= night.until:
            continue  # the clock skipped it
        if start < min(night.start, end):
            found.append(Opening(start, min(night.start, end)))
        start = max(start, night.until)
    if start < end:
        found.append(Opening(start, end))
    return tuple(found)


def _nights(start: datetime, end: datetime, quiet: QuietHours | None, zone: ZoneInfo) -> Iterator[Opening]:
    """The quiet hours of every day that may touch the window, in order."""
    if quiet is None:
        return
    day, last = reads(start, zone).date() - _DAY, reads(end, zone).date()
    while day <= last:
        morning = day if quiet.start < quiet.end else day + _DAY
        yield Opening(
            instant(datetime.combine(day, quiet.start), zone), last_instant(datetime.combine(morning, quiet.end), zone)
        )
        day += _DAY
