"""Durations of a job type, as a person writes and reads them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from activities.web_jobs.durations import duration, written


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("2h", 7200), ("3d", 259200), ("1.5h", 5400), (" 0s ", 0)]
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "10", "10 m", "-1m", "m", "1w", "1h30m", "1e9d", "9999999d"])
def test_an_invalid_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration: write 90s, 10m, 2h or 3d"):
        duration(text)


@pytest.mark.parametrize("text", ["0s", "0.25s", "90s", "0.000001s", "10m", "24h", "36h", "3d", "90061s"])
def test_a_duration_is_written_as_it_is_read(text: str) -> None:
    assert duration(written(duration(text))) == duration(text)


def test_a_duration_is_written_in_the_largest_unit_that_it_fills() -> None:
    given = ("60s", "90s", "24h", "0.5m", "1.5s")
    assert [written(duration(text)) for text in given] == ["1m", "90s", "1d", "30s", "1.5s"]
