"""Durations are read and written as a person writes them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perdure._operations.durations import duration, shown
from perdure.errors import InvalidSetting


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("2h", 7200), ("3d", 259200), ("1.5h", 5400), (" 0s ", 0)]
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "10", "10 m", "-1m", "m", "1w", "1h30m", "1e9d", "9999999d"])
def test_an_invalid_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InvalidSetting, match="is no duration: write 90s, 10m, 2h or 3d"):
        duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0 s"),
        (0.04, "0.0 s"),
        (59.9, "59.9 s"),
        (60, "1 min"),
        (250, "4 min 10 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (86399, "23 h 59 min"),
        (86400, "1 d"),
        (273600, "3 d 4 h"),
    ],
)
def test_a_duration_is_shown_in_two_units_at_most(seconds: float, text: str) -> None:
    assert shown(seconds) == text
