"""The programs of random lifecycles; `interpreter` has the lifecycles that run them.

A program is a list of steps, each a list that begins with its word:

    ["perform", effect, suffix, {"entering": state, "then": state, "expires": seconds, "again": bool}]
    ["gather", [program, ...]]     ["group", [program, ...]]     ["until", seconds]     ["messages", how many, until]
    ["race", [program, ...]]     ["within", seconds, program]     ["step"]     ["enter", state]     ["save"]
    ["renew"]     ["retry"]     ["start", lifecycle, number, program]     ["tell"]
    ["rounds", how many, {"kept": "before" or "after", "same": bool}, program]
    ["advance", state]     ["advanced", state]     ["bug"]
    ["shield", program]     ["lock", name, program]     ["detached", program]     ["join"]

`perform` has as well: `until` = it is performed until it is done, and waits in `HELD` for each retry; `own` = terms of
its own, one of `OWN`; `confirmed` = a message may confirm it; `varies` = a newer build gives it another input; `large`
= its receipt is too large for the older build. `race` and `within` cancel what they leave. `rounds` goes round between
`TURN` and `REST`, with a suffix for each round, unless all have the `same` keys; `kept` = the snapshot counts rounds,
before a round enters its last state or after that. `start` starts another entity by a step; with `tell` that one sends
a message to its starter. `advance`, in the handler of a message, enters a state if the one before it is the present
one, and `advanced` waits for that. At a `bug`, each workflow task of the older build fails, until the newer one is
deployed. What is in `shield` is not cancelled by a `race` or `within` around it. `detached` runs beside what
follows; `join` waits for that. Times are counted from the start of the entity, so that a run that starts from its
top finds the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field

from perdure.contracts.states import state
from perdure.contracts.steps import Step

BUG = "a bug of the older build"
"""The message of the error that fails its workflow tasks."""
NAME, OTHER, SECOND = "explored", "other", "second"
"""The lifecycle that is explored, one that it starts, and one that only the newer build has."""
BRANCHES = ("gather", "group", "race")
"""Words whose last argument is a list of programs."""
INSIDE = ("within", "shield", "lock", "detached")
"""Words whose last argument is a program."""
SECONDS_OF_ROUND = 7
"""How much later what has a time is, in each further round."""


class Program(BaseModel):
    """The program of one entity.

    Attributes:
        steps: the program of `run`.
        at_cancel: the program of `cancelling`.
        at_message: the program of the handler of a message.
        at_update: the program of the handler of an update.
        secret: personal data, which may stand in payloads only.
    """

    steps: list[Any]
    at_cancel: list[Any] = Field(default_factory=list)
    at_message: list[Any] = Field(default_factory=list)
    at_update: list[Any] = Field(default_factory=list)
    secret: str = ""

    @property
    def has_bug(self) -> bool:
        """Whether workflow tasks of the older build fail at some place."""
        return '["bug"]' in self.model_dump_json()

    @property
    def needs_newer_build(self) -> bool:
        """Whether the older build may stand still: a receipt may be too large for it, or its workflow tasks fail."""
        return self.has_bug or '"large":true' in self.model_dump_json()


class Child(BaseModel):
    """An entity that another one starts."""

    lifecycle: str
    id: str
    program: Program


FOUND = Step[Child, str]("found", timeout=timedelta(seconds=2))
"""Starts an entity, in a transaction of the application."""
TELL = Step[str, str]("tell", timeout=timedelta(seconds=2))
"""Sends a message to the entity that has started this one."""


def starter_of(entity_id: str) -> str:
    """The id of the entity that has started this one."""
    return entity_id.partition("-of-")[2]


class Place(StrEnum):
    """States, in their order; each leads to the next one, and to both ends. A person may be needed between any two.
    After the first one, `TURN` and `REST` may follow each other again and again."""

    S0 = state("s0", leads_to=("turn", "s1", "held", "ended"))
    TURN = state("turn", leads_to=("rest", "held"))
    REST = state("rest", leads_to=("turn", "s1", "held", "ended"))
    S1 = state("s1", leads_to=("s2", "held", "ended"))
    S2 = state("s2", leads_to=("s3", "held", "ended"))
    S3 = state("s3", leads_to=("s4", "held", "ended"))
    S4 = state("s4", leads_to=("s5", "held", "ended"))
    S5 = state("s5", leads_to=("held", "ended"))
    HELD = state("held", attention=True)
    ENDED = state("ended", final=True)
    CANCELLED = state("cancelled", cancelled=True)


ORDER = (Place.S0, Place.S1, Place.S2, Place.S3, Place.S4, Place.S5, Place.ENDED)


def of_round(steps: Sequence[Any], number: int, same: bool) -> list[list[Any]]:
    """A program, as a round has it: with keys and times of its own."""

    def change(word: str, arguments: list[Any]) -> list[Any]:
        later = number * SECONDS_OF_ROUND
        if word == "perform":
            name, suffix, more = arguments
            more = {**more, "expires": more["expires"] + later} if "expires" in more else more
            return [name, suffix if same else f"{suffix}.{number}", more]
        return [arguments[0] + later, *arguments[1:]] if word in ("until", "within") else arguments

    return _changed(steps, change)


def of_message(steps: Sequence[Any], text: str) -> list[list[Any]]:
    """A program, as the handler of a message has it: with keys of its own."""

    def change(word: str, arguments: list[Any]) -> list[Any]:
        return [arguments[0], f"{arguments[1]}-{text}", *arguments[2:]] if word == "perform" else arguments

    return _changed(steps, change)


def _changed(steps: Sequence[Any], change: Callable[[str, list[Any]], list[Any]]) -> list[list[Any]]:
    """A program with other arguments, as well as the programs in it."""
    given = []
    for word, *arguments in steps:
        if word in BRANCHES:
            arguments = [[_changed(each, change) for each in arguments[-1]]]
        elif word in INSIDE:
            arguments = [*arguments[:-1], _changed(arguments[-1], change)]
        given.append([word, *change(word, arguments)])
    return given
