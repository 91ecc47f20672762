"""A scenario as a script that can be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure.testing.exploring.programs import Program
from perdure.testing.exploring.scenario import Scenario


def script_of(scenario: Scenario) -> str:
    """The events, line by line."""
    return "\n".join(_lines(scenario))


def _lines(one: Scenario) -> Iterator[str]:
    if isinstance(one.given, Program):
        yield "run:"
        yield from _steps(one.given.steps, "  ")
        for name, steps in (("cancelling", one.given.at_cancel), ("at each message", one.given.at_message)):
            if steps:
                yield f"{name}:"
                yield from _steps(steps, "  ")
    else:
        yield f"input: {one.given!r}"
    for name, calls in one.calls.items():
        yield f"calls of {name}: {', '.join(calls)}; then as asked"
    for fault in one.faults:
        yield f"{fault.place} number {fault.number}: {fault.what} ({fault.seconds:g} s)"
    for event in one.events:
        yield f"after {event.at:g} s: {event.what} ({event.seconds:g} s)"
    workers = ", ".join("older" if build == 0 else "newer" for build in one.builds)
    yield f"workers: {workers}" + ("; all jobs of an activation are applied at once" if one.single_batch else "")
    if one.renews:
        yield f"each run is suggested to continue as new after {one.renews} workflow tasks"
    if one.restarts:
        yield f"restarted after its end: {one.restarts}"


def _steps(steps: list[Any], indent: str) -> Iterator[str]:
    for word, *arguments in steps:
        if word == "within":
            yield f"{indent}within {arguments[0]} s:"
            yield from _steps(arguments[1], indent + "  ")
        elif word == "start":
            yield f"{indent}start {arguments[0]} number {arguments[1]}:"
            yield from _steps(arguments[2]["steps"], indent + "  ")
        elif word == "rounds":
            yield f"{indent}{arguments[0]} rounds" + "".join(f", {k}={v}" for k, v in arguments[1].items()) + ":"
            yield from _steps(arguments[2], indent + "  ")
        elif word in ("gather", "group", "race"):
            yield f"{indent}{word}:"
            for number, branch in enumerate(arguments[0], 1):
                yield f"{indent}  branch {number}:"
                yield from _steps(branch, indent + "    ")
        elif word == "perform":
            effect, suffix, more = arguments
            yield f"{indent}perform {effect}, suffix {suffix}" + "".join(f", {k}={v}" for k, v in more.items())
        else:
            yield f"{indent}{word} " + " ".join(str(each) for each in arguments)
