"""Times that an operator types are read, or refused in one line."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perdure.cli.targets import instant
from perdure.errors import InvalidSetting


def test_a_time_with_a_zone_is_that_instant() -> None:
    assert instant("2026-07-01T12:00+02:00") == datetime(2026, 7, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize("text", ["0001-01-01T00:00+14:00", "9999-12-31T23:59-12:00", "infinity", "36501d", "9" * 400])
def test_a_time_that_no_calendar_holds_is_refused(text: str) -> None:
    with pytest.raises(InvalidSetting, match="is no time: write 2026-07-01"):
        instant(text)
