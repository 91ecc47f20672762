"""The table of what was measured, for the terminal and for a page."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.peers.judge import Judged, in_words
from bench.peers.rig import SCENARIOS, Scenario

ROWS = {
    ("keeps", "before-request"): "killed before the request",
    ("keeps", "reply-held"): "killed after the charge, before the reply",
    ("keeps", "after-reply"): "killed after the reply, nothing recorded",
    ("keeps", "before-write"): "killed before the state is written",
    ("keeps", "after-commit"): "application killed after its commit",
    ("forgets", "reply-held"): "killed before the reply; back after the keys are forgotten",
    ("look-up", "reply-held"): "killed before the reply; no keys, a look-up 3 s behind",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """One tool's results.

    Attributes:
        kills: what became of the orders; a scenario that the tool has no place for is missing.
        cpu: CPU seconds per 1,000 orders, of the worker and each server.
        delay: seconds from the row to the state, without a kill.
    """

    version: str
    lines: int
    needs: Sequence[str]
    kills: Mapping[Scenario, Judged]
    cpu: Mapping[str, float]
    delay: float


def cells(found: Mapping[str, Measured]) -> list[list[str]]:
    """The table: a heading, then a line for each kill and each figure."""
    tools = found.values()
    kills = [
        [ROWS[each.side, each.place], *(in_words(tool.kills[each]) if each in tool.kills else "-" for tool in tools)]
        for each in SCENARIOS
    ]
    return [
        ["", *found],
        *kills,
        ["lines of code", *(str(tool.lines) for tool in tools)],
        ["servers beside PostgreSQL", *(", ".join(tool.needs) or "none" for tool in tools)],
        ["CPU s per 1,000 orders, all processes", *(f"{sum(tool.cpu.values()):.0f}" for tool in tools)],
        ["of these in the worker", *(f"{tool.cpu['worker']:.0f}" for tool in tools)],
        ["ms from the row to the state, no kill", *(f"{1000 * tool.delay:.0f}" for tool in tools)],
    ]


def markdown(found: Mapping[str, Measured], orders: int, day: datetime.date) -> str:
    """The table for a page, with the date and the versions."""
    heading, *lines = cells(found)
    rows = [heading, ["---"] * len(heading), *lines]
    versions = dict.fromkeys(f"{name.partition(',')[0]} {tool.version}" for name, tool in found.items())
    return (
        "".join(f"| {' | '.join(row)} |\n" for row in rows)
        + f"\nMeasured on {day.isoformat()}, {orders} orders for each kill, with {', '.join(versions)}.\n"
    )


def as_json(found: Mapping[str, Measured]) -> dict[str, Any]:
    """All figures."""
    return {
        name: {
            **{key: getattr(tool, key) for key in ("version", "lines", "needs", "cpu", "delay")},
            "kills": {f"{each.side}/{each.place}": asdict(judged) for each, judged in tool.kills.items()},
        }
        for name, tool in found.items()
    }


def from_json(content: Mapping[str, Any]) -> dict[str, Measured]:
    """What `as_json` made."""
    scenarios = {f"{each.side}/{each.place}": each for each in SCENARIOS}
    return {
        name: Measured(
            **{
                **tool,
                "kills": {
                    scenarios[key]: Judged(**judged) for key, judged in tool["kills"].items() if key in scenarios
                },
            }
        )
        for name, tool in content.items()
    }
