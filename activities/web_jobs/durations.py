"""Durations of a job type, as a person writes and reads them: `90s`, `10m`, `2h`, `3d`."""

from __future__ import annotations

import re
from datetime import timedelta

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_FORM = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_LONGEST = 36500 * 86400


def duration(text: str) -> timedelta:
    """Parse a duration.

    Raises:
        ValueError: it is no duration.
    """
    found = _FORM.fullmatch(text.strip())
    seconds = float(found[1]) * _UNITS[found[2]] if found else _LONGEST + 1
    if seconds > _LONGEST:
        raise ValueError(f"{text!r} is no duration: write 90s, 10m, 2h or 3d")
    return timedelta(seconds=seconds)


def written(span: timedelta) -> str:
    """A duration as `duration` reads it, with nothing lost: `90s`, `10m`, `1d`."""
    for unit, size in reversed(_UNITS.items()):
        whole, rest = divmod(span, timedelta(seconds=size))
        if whole and not rest:
            return f"{whole}{unit}"
    seconds = f"{span // timedelta(seconds=1)}.{span.microseconds:06}".rstrip("0").rstrip(".")
    return f"{seconds}s"
