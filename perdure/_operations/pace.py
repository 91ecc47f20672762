"""How much happens: transitions of the last hour and day, by lifecycle."""

from __future__ import annotations

from dataclasses import dataclass

from perdure._store.schema import Connection
from perdure._store.sql import queries

query = queries(__name__)

COUNTED = 50_000
"""Transitions that are counted, the newest ones: so it costs the same however busy the day was."""
HOUR, DAY = 60, 24 * 60
_PER_POINT = 30


@dataclass(frozen=True, slots=True)
class Pace:
    """Of one lifecycle, the oldest first.

    Attributes:
        hour: transitions in each of the last 60 minutes.
        day: transitions in each of the last 48 half hours.
    """

    hour: tuple[int, ...]
    day: tuple[int, ...]


async def read_pace(connection: Connection) -> dict[str, Pace]:
    """By lifecycle; of a busy day only as far back as `COUNTED` transitions reach."""
    found: dict[str, list[int]] = {}
    for row in await connection.fetch(query("recent_transitions"), COUNTED):
        minutes = found.setdefault(row["lifecycle"], [0] * DAY)
        minutes[max(DAY - 1 - row["minutes_ago"], 0)] += row["transitions"]
    return {
        lifecycle: Pace(
            tuple(minutes[-HOUR:]),
            tuple(sum(minutes[at : at + _PER_POINT]) for at in range(0, DAY, _PER_POINT)),
        )
        for lifecycle, minutes in found.items()
    }
