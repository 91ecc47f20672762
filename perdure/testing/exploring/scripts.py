"""A scenario as a script that can be read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from perdure.testing.exploring.programs import BRANCHES, INSIDE, Program
from perdure.testing.exploring.scenario import Finding, Scenario

_ROUND_WITHOUT_END = "It goes round without end. If it is only long, explore an input with fewer rounds."
_ADVICE = {
    "done twice": "An effect that ended in doubt may have happened: perform it again under the same suffix only.",
    "stands still": (
        "Nothing wakes it: no timer, no attempt, none of the messages that were sent, and nobody is asked to retry. "
        "If it waits for more messages, list more of them in `messages`."
    ),
    "never ends": _ROUND_WITHOUT_END,
    "runs without end": _ROUND_WITHOUT_END,
}
_STARTED_AGAIN = (
    "`run` was started again from its top here. What it did before must follow from its input, snapshot and receipts."
)


def advice_on(finding: Finding, scenario: Scenario) -> str:
    """What an author can do about a finding."""
    again = scenario.renews or any(each.what in ("lose Temporal", "terminate") for each in scenario.events)
    lines = [_ADVICE.get(finding.kind), _STARTED_AGAIN if again else None]
    return "".join(f"{line}\n" for line in lines if line)


def script_of(scenario: Scenario) -> str:
    """The events, line by line."""
    return "\n".join(_lines(scenario))


def _lines(one: Scenario) -> Iterator[str]:
    if isinstance(one.given, Program):
        yield "run:"
        yield from _steps(one.given.steps, "  ")
        for name, steps in (
            ("cancelling", one.given.at_cancel),
            ("at each message", one.given.at_message),
            ("at each update", one.given.at_update),
        ):
            if steps:
                yield f"{name}:"
                yield from _steps(steps, "  ")
    else:
        yield f"input: {one.given!r}"
    for name, calls in one.calls.items():
        yield f"calls of {name}: {', '.join(_counted(calls))}; then as asked"
    for fault in one.faults:
        yield f"{fault.place} number {fault.number}: {fault.what} ({fault.seconds:g} s)"
    for event in one.events:
        yield f"after {_time(event.at)}: {event.what} ({event.seconds:g} s)"
    workers = ", ".join("older" if build == 0 else "newer" for build in one.builds)
    yield f"workers: {workers}" + ("; all jobs of an activation are applied at once" if one.single_batch else "")
    if one.renews:
        yield f"each run is suggested to continue as new after {one.renews} workflow tasks"
    if one.indexed:
        yield "Temporal's lists show the state of each run, and why it needs a person"
    if one.restarts:
        yield f"restarted after its end: {one.restarts}"


def _counted(words: list[str]) -> Iterator[str]:
    for word, each in groupby(words):
        count = len(list(each))
        yield f"{count} x {word}" if count > 1 else word


def _time(seconds: float) -> str:
    if seconds < 3600:
        return f"{seconds:g} s"
    days, rest = divmod(round(seconds), 86_400)
    clock = f"{rest // 3600}:{rest // 60 % 60:02}:{rest % 60:02} h"
    return f"{days} d {clock}" if days else clock


def _steps(steps: list[Any], indent: str) -> Iterator[str]:
    for word, *arguments in steps:
        if word in INSIDE:
            yield f"{indent}{' '.join(map(str, [word, *arguments[:-1]]))}" + (" s:" if word == "within" else ":")
            yield from _steps(arguments[-1], indent + "  ")
        elif word == "start":
            yield f"{indent}start {arguments[0]} number {arguments[1]}:"
            yield from _steps(arguments[2]["steps"], indent + "  ")
        elif word == "rounds":
            yield f"{indent}{arguments[0]} rounds" + "".join(f", {k}={v}" for k, v in arguments[1].items()) + ":"
            yield from _steps(arguments[2], indent + "  ")
        elif word in BRANCHES:
            yield f"{indent}{word}:"
            for number, branch in enumerate(arguments[0], 1):
                yield f"{indent}  branch {number}:"
                yield from _steps(branch, indent + "    ")
        elif word == "perform":
            effect, suffix, more = arguments
            yield f"{indent}perform {effect}, suffix {suffix}" + "".join(f", {k}={v}" for k, v in more.items())
        else:
            yield f"{indent}{word} " + " ".join(str(each) for each in arguments)
