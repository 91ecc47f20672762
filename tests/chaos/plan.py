"""What is started when, what breaks when, whom it hits and for how long: a pure function of the seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from perdure.testing.exploring.programs import NAME, OTHER

WORKERS = ("worker-1", "worker-2", "worker-3")
TO_POSTGRES, TO_TEMPORAL = "to PostgreSQL", "to Temporal"
TO_OTHER_SIDE, TO_MAIL = "to the other side", "to the mail server"
OF_APP, OF_TEMPORAL, OF_RELAY = "of the app to PostgreSQL", "of Temporal to its PostgreSQL", "of a relay to PostgreSQL"
WAYS = (TO_POSTGRES, TO_TEMPORAL, TO_OTHER_SIDE, TO_MAIL, OF_APP, OF_TEMPORAL)
"""Each has a proxy; those `to` a server are of all workers."""

DELAY = 0.1
"""Seconds for which a delayed connection holds each piece of data: less than any `visibility_delay`."""
LONGEST_FREEZE = 0.4
"""Seconds. Below `visibility_delay`: a process that is frozen longer between its last check and its send may do a
thing twice."""

_AWAY = (0.5, 2.0)
_LONG_AWAY = (11.0, 14.0)
"""Longer than anybody waits for an answer; in runs of a minute and more, now and then."""
SHAPES: dict[str, tuple[tuple[str, ...], tuple[float, float]]] = {
    "worker killed": (WORKERS, (0.2, 1.5)),
    "worker stopped": (WORKERS, (0.2, 1.5)),
    "worker frozen": (WORKERS, (0.1, LONGEST_FREEZE)),
    "worker's host lost": (WORKERS, (0.2, 1.5)),
    "PostgreSQL killed": (("PostgreSQL",), _AWAY),
    "PostgreSQL restarted": (("PostgreSQL",), _AWAY),
    "Temporal killed": (("Temporal",), _AWAY),
    "Temporal restarted": (("Temporal",), _AWAY),
    "Temporal's PostgreSQL killed": (("Temporal",), _AWAY),
    "Temporal's PostgreSQL restarted": (("Temporal",), _AWAY),
    "Temporal and its PostgreSQL killed": (("Temporal",), _AWAY),
    "connections cut": (WAYS, (0.0, 0.0)),
    "connections delayed": (WAYS, (0.5, 2.5)),
    "connections frozen": (WAYS, (0.5, 3.0)),
    "connections half-closed": (WAYS, (0.0, 0.0)),
    "connections lost in silence": ((TO_POSTGRES, TO_TEMPORAL, OF_APP, OF_TEMPORAL), (0.0, 2.0)),
    "connections lost in a transaction": ((OF_RELAY,), (0.0, 0.0)),
}
"""Each kind of fault: whom it can hit, and for how many seconds, from and to."""

KINDS: dict[str, float] = {
    "comment-notification": 6,
    **dict.fromkeys(("lookup", "lookup-inline", "dedupe", "dedupe-inline", "repeat", "repeat-inline"), 3),
    **dict.fromkeys(("escalate", "escalate-inline", "ring", "ring-inline", "look", "look-inline"), 2),
    **dict.fromkeys(("slow", "plod", "rest", "march", "counter"), 1),
}
"""Each kind of lifecycle, and how often it is started beside the others."""

GENERATED, STARTED = NAME, OTHER
"""Those that are written at random, and those that these start; see `tests.chaos.generated`."""
RANDOM = (GENERATED, STARTED)

_EXPIRING = {"lookup", "lookup-inline", "dedupe", "dedupe-inline", "repeat", "escalate", "escalate-inline"}
_CANCELLABLE = {"lookup", "lookup-inline", "dedupe", "dedupe-inline", "escalate", "look", "look-inline"}


@dataclass(frozen=True, slots=True)
class Start:
    """One lifecycle that the app starts.

    Attributes:
        at: seconds from the beginning.
        seconds: of `rest` how long it rests; of the others after how long it expires, 0 = never.
        kept: False = the app's transaction is rolled back after the start.
        cancelled_after: seconds after which somebody asks for its end; None = never.
    """

    at: float
    lifecycle: str
    id: str
    seconds: float = 0.0
    kept: bool = True
    cancelled_after: float | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that breaks: `victim` is hit at `at`, for `seconds`."""

    at: float
    kind: str
    victim: str
    seconds: float

    def __str__(self) -> str:
        hit = self.victim if self.kind.startswith(("worker", "connections")) else ""
        lasting = f"for {self.seconds:.1f} s" if self.seconds else ""
        return " ".join(part for part in (f"{self.at:6.1f} s", self.kind, hit, lasting) if part)


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole of it."""

    seed: int
    seconds: float
    starts: tuple[Start, ...]
    faults: tuple[Fault, ...]


def make_plan(seed: int, seconds: float, lifecycles: int, *, every: float = 3.0, generated: float = 1 / 3) -> Plan:
    """The plan of a seed.

    Args:
        seconds: how long it goes on, before everything is healed.
        lifecycles: how many are started, those that are rolled back included.
        every: seconds between two faults, on average.
        generated: the share of random lifecycles among them.
    """
    starts = _starts(random.Random(f"starts {seed}"), seconds, lifecycles, generated)
    faults = _faults(random.Random(f"faults {seed}"), seconds, every)
    return Plan(seed, seconds, tuple(starts), tuple(sorted(faults, key=lambda fault: fault.at)))


def _starts(luck: random.Random, seconds: float, lifecycles: int, generated: float) -> Iterator[Start]:
    others = lifecycles - round(lifecycles * generated)
    kinds = [*KINDS, *luck.choices([*KINDS], [*KINDS.values()], k=max(others - len(KINDS), 0))][:others]
    kinds += [GENERATED] * (lifecycles - others)
    luck.shuffle(kinds)
    for number, kind in enumerate(kinds):
        at = round((number + luck.random()) * seconds * 0.95 / lifecycles, 3)
        cancelled = luck.random() < 0.05 and kind in _CANCELLABLE
        yield Start(
            at,
            kind,
            str(number + 1),
            seconds=_expiry(luck, kind),
            kept=luck.random() >= 0.08 or kind == "counter",
            cancelled_after=round(luck.uniform(0.0, 3.0), 2) if cancelled else None,
        )


def _expiry(luck: random.Random, kind: str) -> float:
    if kind == "rest":
        return round(luck.uniform(0.5, 8.0), 1)
    return 3.0 if luck.random() < 0.05 and kind in _EXPIRING else 0.0


def _faults(luck: random.Random, seconds: float, every: float) -> Iterator[Fault]:
    """Kinds are dealt like cards, so that each comes before any comes again, and so are the victims of a kind; a victim
    is hit once at a time."""
    free_at = dict.fromkeys({victim for victims, _ in SHAPES.values() for victim in victims}, 0.0)
    deck: list[str] = []
    next_of: dict[str, list[str]] = {}
    for number in range(int(seconds / every)):
        deck = deck or luck.sample([*SHAPES], len(SHAPES))
        kind = deck.pop()
        victims, lasting = SHAPES[kind]
        next_of[kind] = next_of.get(kind) or luck.sample(victims, len(victims))
        victim = next_of[kind].pop()
        if seconds >= 60 and lasting == _AWAY and luck.random() < 0.25:
            lasting = _LONG_AWAY
        at = max((number + luck.random()) * every, free_at[victim])
        fault = Fault(round(at, 2), kind, victim, round(luck.uniform(*lasting), 2))
        free_at[victim] = fault.at + fault.seconds + 1.0
        yield fault
