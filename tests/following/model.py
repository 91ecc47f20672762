"""What the writers know to be committed, and what followers have made of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeAlias

Event: TypeAlias = tuple[str, int, str]
"""Id and version of one transition, and a word that no other has: a lost one and its successor differ."""


class Broken(AssertionError):
    """A promise of the feed was broken."""


@dataclass(slots=True)
class Truth:
    """What is committed.

    Attributes:
        gone: what went with a month.
        prepared: the transactions of two-phase commits that are not over, by name.
        server: grows whenever something was put back or restored, or another server took over.
    """

    events: set[Event] = field(default_factory=set)
    gone: set[Event] = field(default_factory=set)
    versions: dict[str, int] = field(default_factory=dict)
    prepared: dict[str, list[Event]] = field(default_factory=dict)
    server: int = 0

    def copy(self) -> Truth:
        """As it is now."""
        prepared = {name: list(events) for name, events in self.prepared.items()}
        return Truth(set(self.events), set(self.gone), dict(self.versions), prepared, self.server)

    def commit(self, events: list[Event]) -> None:
        """These are committed."""
        self.events |= set(events)
        for entity, version, _ in events:
            self.versions[entity] = max(version, self.versions.get(entity, -1))


@dataclass(slots=True)
class Account:
    """What one follower has handled since it began last.

    Attributes:
        excused: what had gone with a month before it began.
        server: the server or database that gave its position, see `Truth`.
    """

    handled: list[Event] = field(default_factory=list)
    excused: set[Event] = field(default_factory=set)
    server: int = 0

    def judge(self, truth: Truth, who: str, *, drained: bool) -> None:
        """Compare with what is committed.

        Raises:
            Broken: something was missed, came twice or out of order, or never happened.
        """
        count = Counter(self.handled)
        _none([e for e, n in count.items() if n > 1], f"{who} handled twice")
        last: dict[str, int] = {}
        for entity, version, _ in self.handled:
            if version <= last.get(entity, -1):
                raise Broken(f"{who} was given {entity} {version} after {last[entity]}")
            last[entity] = version
        _none(set(count) - truth.events - truth.gone, f"{who} was given what never happened")
        if drained:
            _none((truth.events | truth.gone) - self.excused - set(count), f"{who} missed")


def _none(events: set[Event] | list[Event], what: str) -> None:
    if events:
        raise Broken(f"{what}: {sorted(events)[:5]}{' ...' if len(events) > 5 else ''}")
