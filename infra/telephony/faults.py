"""Faults that the telephony server can be ordered to show: each at one moment of a request, or with its callbacks."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """What goes wrong with a request that would create something."""

    DELAY_BEFORE = "delay-before"
    """Falls silent for a while, then accepts."""
    DELAY_AFTER = "delay-after"
    """Accepts, then falls silent for a while."""
    RESET_BEFORE = "reset-before"
    """Resets the connection; nothing is accepted."""
    RESET_AFTER = "reset-after"
    """Accepts, and resets the connection."""
    TOO_MANY = "429"
    """`429`, error 20429, with `Retry-After`."""
    ERROR_BEFORE = "500-before"
    """`500`, error 20500; nothing is accepted."""
    ERROR_AFTER = "500-after"
    """Accepts, then `500`, error 20500."""
    UNAVAILABLE = "503"
    """`503`, error 20503."""
    GATEWAY = "502"
    """Accepts; a gateway between answers `502` with a page of HTML."""
    TRUNCATED = "truncated"
    """Accepts; the answer breaks off in its middle."""
    NOT_JSON = "not-json"
    """Accepts; the answer of 201 is HTML."""
    REDIRECT = "redirect"
    """`307` to another place; nothing is accepted."""
    PASSWORD = "401"
    """`401`, error 20003: somebody has changed the auth token."""


ACCEPTS = frozenset(
    {
        *(Fault.DELAY_BEFORE, Fault.DELAY_AFTER, Fault.RESET_AFTER, Fault.ERROR_AFTER),
        *(Fault.GATEWAY, Fault.TRUNCATED, Fault.NOT_JSON),
    }
)
"""Those after which the message or the call is made all the same."""


class Report(StrEnum):
    """What goes wrong with a status callback."""

    LATE = "late"
    TWICE = "twice"
    MISSING = "missing"
    REORDERED = "reordered"
    """It comes after the one that follows it."""


@dataclass
class Chance:
    """Faults by chance, the same ones for the same seed.

    Attributes:
        requests: share of requests that would create something.
        reports: share of callbacks.
        of: which faults of requests.
    """

    requests: float = 0.0
    reports: float = 0.0
    seed: int = 0
    of: tuple[Fault, ...] = tuple(fault for fault in Fault if fault is not Fault.PASSWORD)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def request(self) -> Fault | None:
        """What happens to the next request."""
        return self._random.choice(self.of) if self._random.random() < self.requests else None

    def report(self) -> Report | None:
        """What happens to the next callback."""
        return self._random.choice(tuple(Report)) if self._random.random() < self.reports else None


class Orders:
    """What goes wrong next: first what was ordered, in its order, then chance."""

    def __init__(self, chance: Chance) -> None:
        self.chance = chance
        self._requests: deque[Fault | None] = deque()
        self._reports: deque[Report | None] = deque()

    def order(self, *faults: Fault | None) -> None:
        """The next requests that would create something end so; None = well."""
        self._requests.extend(faults)

    @property
    def happened(self) -> bool:
        """Whether all requests have come that were ordered to fail."""
        return not self._requests

    def order_reports(self, *faults: Report | None) -> None:
        """The next callbacks go so; None = well."""
        self._reports.extend(faults)

    def request(self) -> Fault | None:
        """What happens to this request."""
        return self._requests.popleft() if self._requests else self.chance.request()

    def report(self) -> Report | None:
        """What happens to this callback."""
        return self._reports.popleft() if self._reports else self.chance.report()
