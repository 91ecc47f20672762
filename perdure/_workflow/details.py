"""What the Web UI shows of a run: where it is, since when, and what a person can do, ready to be copied."""

from __future__ import annotations

import json

from perdure._text.shown import code, json_text, markdown
from perdure._wire.status import EffectProgress, LifecycleStatus


def details(status: LifecycleStatus) -> str:
    """Markdown for `workflow.set_current_details`. Holds no payloads."""
    lines = [f"**{status.state}** since {status.since:%Y-%m-%d %H:%M:%S} UTC"]
    if status.attention:
        lines.append(f"**needs a person**: {markdown(status.attention)}")
    if status.how_far:
        lines.append(markdown(status.how_far))
    lines += [_line(each) for each in status.effects]
    for each in status.effects:
        if each.parked:
            lines += _how_to_resolve(each)
    if status.waits_for_retry:
        lines += _how_to_retry()
    return "\n\n".join(lines)


def _line(effect: EffectProgress) -> str:
    waits = f", next step at {effect.next_at:%H:%M:%S} UTC" if effect.next_at else ""
    begun = f"attempts begun: {effect.attempts}{waits}"
    return f"- {code(effect.effect)}: {effect.status.value}, {begun}\n  key {code(effect.key)}"


def _how_to_resolve(effect: EffectProgress) -> list[str]:
    example = {"effect": effect.effect, "outcome": "not_done", "by": "your name", "note": "how you know"}
    return [
        f"Nobody knows whether {code(effect.effect)} happened. Find out, then send the update `resolve` with "
        "`outcome` = `done` (with its `receipt`), `not_done` (it goes again) or `abandoned`:",
        f"```json\n{json_text(json.dumps(example))}\n```",
    ]


def _how_to_retry() -> list[str]:
    example = json.dumps({"by": "your name", "note": "why"})
    return [
        "It waits until somebody sends the update `retry_now` (again, same key) or `send_again` (anew, new key):",
        f"```json\n{example}\n```",
    ]
