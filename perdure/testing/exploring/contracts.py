"""The contracts of random lifecycles: effects of every policy and way, and terms of a performance's own."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Any

from pydantic import BaseModel

from perdure.contracts.effects import Effect, Lookup
from perdure.contracts.limits import RateLimit
from perdure.contracts.policies import AskFirst, Dedupe, DoubtPolicy, Escalate, Repeat, RetryPolicy
from perdure.contracts.steps import Step

OWN = ("repeat", "escalate", "window", "ask", "short", "long", "long", "once")
"""Terms of a performance in place of the contract's; `window` is for effects whose repeats the other side drops, `ask`
for those that have a look-up."""
RENAMED = frozenset({"dedupe", "escalate-inline", "look-up", "look-up-inline", "find-look-up", "find-look-up-on"})
"""Effects and look-ups that have another name in a newer build."""
COUNT = Step[str, str]("count", timeout=timedelta(seconds=2))
SCAN = "scan"
"""An effect whose receipt may be too large in the older build."""


class Scanned(BaseModel):
    """The receipt of `SCAN` in a newer build."""

    id: str


class Scan(Scanned):
    """The receipt of `SCAN` in the older build."""

    image: str = ""


@cache
def contracts(build: int, pace: float = 1.0) -> dict[str, Effect[str, Any]]:
    """Contracts of every policy and way, as a build has them, by their first names."""
    timeout, waits = timedelta(seconds=5 * pace), timedelta(seconds=25 * pace)
    made: dict[str, Effect[str, Any]] = {
        SCAN: Effect[str, Scanned](SCAN, timeout=timeout, doubt=Escalate())
        if build
        else Effect[str, Scan](SCAN, timeout=timeout, doubt=Escalate())
    }
    for first, (doubt, retry, more) in _policies(build, pace).items():
        name, aliases = _name(first, build)
        made[first] = Effect[str, str](
            name, timeout=timeout, doubt=doubt, retry=retry, schedule_to_start_timeout=waits, aliases=aliases, **more
        )
    return made


def _name(first: str, build: int) -> tuple[str, tuple[str, ...]]:
    """The name of an effect or a look-up in a build, and its former names."""
    return (f"{first}-renamed", (first,)) if build and first in RENAMED else (first, ())


def _policies(build: int, pace: float) -> dict[str, tuple[DoubtPolicy[str, str], RetryPolicy | None, dict[str, Any]]]:
    """By the effect's name: policy, retry, and what else its contract has."""

    def s(seconds: float) -> timedelta:
        return timedelta(seconds=seconds * pace)

    later = s(build)  # a newer build waits a little longer, and that must not matter

    def finds(name: str, **more: Any) -> Lookup[str, str]:
        name, aliases = _name(f"find-{name}", build)
        return Lookup[str, str](name, timeout=s(3), aliases=aliases, **more)

    def look(name: str, inline: bool = False, **more: Any) -> AskFirst[str, str]:
        more.setdefault("visibility_delay", s(4))
        return AskFirst(finds(name, inline=inline), **more)

    def minute(**more: Any) -> Dedupe:
        return Dedupe(s(60), s(5), **more)

    retry = RetryPolicy(initial_interval=s(1) + later, maximum_interval=s(30))
    twice = RetryPolicy(initial_interval=s(1) + later, maximum_interval=s(30), maximum_attempts=2)
    once = RetryPolicy(initial_interval=s(1), maximum_attempts=1)
    slow = RetryPolicy(initial_interval=s(20), maximum_interval=s(90))
    inline = {"inline": True}
    limit = RateLimit("provider", 0.5 / pace**2)
    return {
        "repeat": (Repeat(), retry, {}),
        "repeat-inline": (Repeat(), twice, inline),
        "dedupe": (minute(), slow, {}),
        "dedupe-inline": (minute(), retry, inline),
        "dedupe-twice": (minute(), twice, {}),
        "dedupe-limited": (minute(), retry, {"limit": limit}),
        "look-up": (look("look-up"), retry, {}),
        "look-up-inline": (look("look-up-inline", inline=True), twice, inline),
        "look-up-on": (look("look-up-on", tries=None), once, inline),
        "look-up-twice": (look("look-up-twice", misses=1 + build, tries=2), twice, {}),
        "escalate": (Escalate(), retry, {}),
        "escalate-inline": (Escalate(), once, inline),
        "escalate-limited": (Escalate(), once, {"limit": limit}),
    }


def own_terms(effect: Effect[str, Any], how: str, pace: float) -> dict[str, Any]:
    """The arguments of `perform` for terms of its own."""

    def s(seconds: float) -> timedelta:
        return timedelta(seconds=seconds * pace)

    match how:
        case "repeat":
            return {"doubt": Repeat()}
        case "escalate":
            return {"doubt": Escalate()}
        case "window":
            return {"doubt": Dedupe(s(30), s(5), Repeat())}
        case "ask":
            assert effect.lookup is not None
            return {"doubt": AskFirst(effect.lookup, visibility_delay=s(4), misses=2, tries=1, otherwise=Repeat())}
        case "short":
            return {"timeout": s(2)}
        case "long":  # a worker that is frozen, or whose task is lost, may still begin its attempt in time
            return {"timeout": s(30)}
        case _:
            return {"retry": RetryPolicy(initial_interval=s(1), maximum_attempts=1)}
