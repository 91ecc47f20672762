"""What the Web UI shows of a run: where it is, since when, and what a person can do, ready to be copied."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.workflow.conduct import Conductor
    from perdure.workflow.performing import Performance


def details(conductor: Conductor) -> str:
    """Markdown for `workflow.set_current_details`. Holds no payloads."""
    lines = [f"**{conductor.state}** since {conductor.since:%Y-%m-%d %H:%M:%S} UTC"]
    if wanted := conductor.wants(conductor.state):
        lines.append(f"**wants a person**: {wanted}")
    lines += [_line(each) for each in conductor.performances.values()]
    for each in conductor.performances.values():
        if each.parked:
            lines += _how_to_resolve(each)
    if conductor.waiting_for_retry:
        lines += _how_to_retry()
    return "\n\n".join(lines)


def _line(performance: Performance[Any, Any]) -> str:
    view = performance.known.effect
    waits = f", next step at {performance.next_at:%H:%M:%S} UTC" if performance.next_at else ""
    begun = f"attempts begun: {view.attempts}{waits}"
    return f"- `{performance.slot}`: {view.status.value}, {begun}\n  key `{performance.key}`"


def _how_to_resolve(performance: Performance[Any, Any]) -> list[str]:
    example = {"effect": performance.slot, "outcome": "not_done", "by": "your name", "note": "how you know"}
    return [
        f"Nobody knows whether `{performance.slot}` happened. Find out, then send the update `resolve` with "
        "`outcome` = `done` (with its `receipt`), `not_done` (it goes again) or `abandoned`:",
        f"```json\n{json.dumps(example)}\n```",
    ]


def _how_to_retry() -> list[str]:
    example = json.dumps({"by": "your name", "note": "why"})
    return [
        "It waits until somebody sends the update `retry_now` (again, same key) or `send_again` (anew, new key):",
        f"```json\n{example}\n```",
    ]
