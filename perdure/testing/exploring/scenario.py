"""The parts of a scenario, and its possible findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RENEWS = "continues as new"


@dataclass(frozen=True)
class Fault:
    """A fault of a worker, or of the database, at the n-th time that a place is reached.

    Attributes:
        place: `before the commit`, `after the commit`, or `continues as new` (a worker reports that a run does).
        number: which time, from 1.
        what: `kill`, `freeze`, `stall` (its event loop stands still, and Temporal's core goes on), `cut off`, `stop`,
            `away` (the database), `lose replies`, `lock`; where a run continues as new, any event.
        seconds: how long that lasts.
    """

    place: str
    number: int
    what: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Event:
    """An event at a time.

    Attributes:
        at: seconds after the start.
        what: a fault, or `cancel`, `cancel through Temporal`, `retry`, `send again`, `message`, `confirm` (a message
            confirms what was done), `update` (one of the author's), `again` (a message is delivered once more),
            `terminate`, `lose Temporal`, `restore` (the database is as it was before the first attempts),
            `lose commits` (it is as it was some commits ago), `evict`,
            `start worker`, `deploy` (workers of the newest build replace all others), `mirror` (it is written once
            more), `worker's clock` and `Temporal's clock` (they jump).
        seconds: how long that lasts.
    """

    at: float
    what: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Scenario:
    """All that makes a run: played twice, it goes the same way.

    Attributes:
        seed: places pauses and turns.
        given: the lifecycle's input.
        calls: how the calls of each effect, look-up and step go; see `other_side`.
        builds: of the workers, in the order in which they are started.
        renews: after how many workflow tasks each run is suggested to continue as new; 0 = never.
        single_batch: whether the SDK applies all jobs of an activation at once, as a later release will.
        restarts: how often the entity is restarted after its end.
        indexed: whether Temporal's lists show the state of each run, and why it needs a person.
    """

    seed: int
    given: Any
    calls: Mapping[str, list[str]] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    events: tuple[Event, ...] = ()
    builds: tuple[int, ...] = (0, 0)
    renews: int = 0
    single_batch: bool = False
    restarts: int = 0
    indexed: bool = False


@dataclass(frozen=True)
class Finding:
    """An event that must not happen, and did.

    Attributes:
        kind: in a few words; the same for the same kind of thing.
        what: with names and values.
    """

    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"
