"""IANA time zones: their names, and at which instant a local time is.

A local time that exists twice (a clock is put back) is its first. One that does not exist (a clock is put forward) is
the instant at which the gap ends: the next local time that does exist.
"""

from __future__ import annotations

import difflib
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator

_NOT_PLACES = ("posix/", "right/", "localtime", "posixrules", "Factory")


@lru_cache(maxsize=1024)
def zone_of(name: str) -> ZoneInfo:
    """The zone of this name.

    Raises:
        ValueError: there is none; the message names the likeliest.
    """
    if not name.startswith(_NOT_PLACES):
        try:
            return ZoneInfo(name)
        except (ValueError, KeyError, OSError):  # not found is a KeyError; a folder, an OSError; a path, a ValueError
            pass
    likely = difflib.get_close_matches(name[:64], sorted(available_timezones() - {name}), n=1)
    meant = f"did you mean {likely[0]}?" if likely else "give one such as America/New_York"
    raise ValueError(f"{name[:64]!r} is no zone of the IANA database: {meant}")


def check_zone(name: str) -> str:
    """Return `name` if it is a zone's, else raise `ValueError`."""
    zone_of(name)
    return name


Zone = Annotated[str, AfterValidator(check_zone)]
"""Name of an IANA time zone, such as `Africa/Accra`. Abbreviations and offsets know nothing of daylight saving."""


def instant(local: datetime, zone: ZoneInfo) -> datetime:
    """The instant (UTC) at which the local time `local` (without an offset) is for the first time, or its gap ends."""
    found = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    return found if reads(found, zone) == local else _end_of_gap(local, zone)


def last_instant(local: datetime, zone: ZoneInfo) -> datetime:
    """As `instant`, but the last time for a local time that exists twice."""
    found = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return found if reads(found, zone) == local else _end_of_gap(local, zone)


def reads(at: datetime, zone: ZoneInfo) -> datetime:
    """The local time in the zone at this instant, without an offset."""
    return at.astimezone(zone).replace(tzinfo=None, fold=0)


def _end_of_gap(local: datetime, zone: ZoneInfo) -> datetime:
    """The first second whose local time is past `local`, which is in a gap.

    The offset of after the gap gives an instant before it, and the other way round (PEP 495).
    """
    early = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    late = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    while late - early > timedelta(seconds=1):
        middle = early + timedelta(seconds=(late - early) // timedelta(seconds=2))
        early, late = (early, middle) if reads(middle, zone) > local else (middle, late)
    return late
