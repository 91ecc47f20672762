"""What the Web UI shows of a run: first what a person must do, ready to be copied, then where it is.

Nothing is in a fenced block: the Web UI of 2.42 shows those in its light theme in the colour of the page.
"""

from __future__ import annotations

import json

from perdure._text.shown import code, command, json_text, markdown
from perdure._wire.status import EffectProgress, LifecycleStatus
from perdure.contracts.outcomes import EffectStatus

_STATUS = {EffectStatus.IN_DOUBT: "in doubt", EffectStatus.NOT_DONE: "not done"}


def details(status: LifecycleStatus) -> str:
    """Markdown for `workflow.set_current_details`. Holds no payloads."""
    lines = [f"**A person is needed.** {markdown(status.attention)}"] if status.attention else []
    for each in status.effects:
        if each.parked:
            lines += _how_to_resolve(status, each)
    if status.waits_for_retry:
        lines += _how_to_retry(status)
    lines.append(f"**{markdown(status.state)}** since {status.since:%Y-%m-%d %H:%M:%S} UTC")
    if status.how_far:
        lines.append(markdown(status.how_far))
    return "\n\n".join([*lines, *map(_line, status.effects)])


def _line(effect: EffectProgress) -> str:
    why = f": {markdown(effect.why)}" if effect.why else ""
    waits = f", next step at {effect.next_at:%H:%M:%S} UTC" if effect.next_at else ""
    status = f"{_STATUS.get(effect.status, effect.status.value)}{why}"
    return f"- {code(effect.effect)}: **{status}**. Attempts begun: {effect.attempts}{waits}. Key {code(effect.key)}"


def _how_to_resolve(status: LifecycleStatus, effect: EffectProgress) -> list[str]:
    example = {"effect": effect.effect, "outcome": "not_done", "by": "your name", "note": "how you know"}
    more = ("--effect", effect.key, "--as", "not_done", "--note", "WHY")
    resolve = command("resolve", status.lifecycle, status.id, *more)
    return [
        f"Find out at the other side whether {code(effect.effect)} happened, by its key {code(effect.key)}. If it did "
        "not, this lets it go again. *More Actions*, *Send an Update*, `resolve`:",
        code(json_text(json.dumps(example))),
        f"or on a terminal: {code(resolve)}",
        'If it happened: `"outcome": "done"`, with its `"receipt"`. To give it up: `"abandoned"`.',
    ]


def _how_to_retry(status: LifecycleStatus) -> list[str]:
    example = json.dumps({"by": "your name", "note": "why"})
    return [
        "Mend the cause. Then send the update `retry_now` (again, with the same key) or `send_again` (anew, with a new "
        "key). *More Actions*, *Send an Update*:",
        code(example),
        f"or on a terminal: {code(command('retry', status.lifecycle, status.id))}",
    ]
