"""Durations as a person writes and reads them: `90s`, `10m`, `2h`, `3d`."""

from __future__ import annotations

import re
from datetime import timedelta

from perdure.errors import InvalidSetting

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_FORM = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_LONGEST = 36500 * 86400


def duration(text: str) -> timedelta:
    """What `text` stands for.

    Raises:
        InvalidSetting: it is no duration.
    """
    found = _FORM.fullmatch(text.strip())
    seconds = float(found[1]) * _UNITS[found[2]] if found else _LONGEST + 1
    if seconds > _LONGEST:
        raise InvalidSetting(f"{text!r} is no duration: write 90s, 10m, 2h or 3d")
    return timedelta(seconds=seconds)


def shown(seconds: float) -> str:
    """A duration in at most two units: `3.2 s`, `4 min 10 s`, `2 h 5 min`, `3 d 4 h`."""
    if seconds < 60:
        return f"{max(seconds, 0):.1f} s"
    whole = int(seconds)
    for size, name, part, part_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {name}" + (f" {rest} {part_name}" if rest else "")
    raise AssertionError(seconds)
