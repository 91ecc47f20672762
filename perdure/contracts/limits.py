"""`RateLimit`: how many attempts and look-ups a second the other side takes from us, from all workers together.

Temporal keeps it, as the rate of a task queue: what shares a limit shares a queue that has nothing else in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from perdure.contracts.keys import check_name
from perdure.errors import DeclarationError

BETWEEN = "."
"""Between a lifecycle's task queue and the name of a limit. No name of a limit has one."""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A rate that all workers of an app keep together, as for one account with a provider.

    Args:
        name: part of the name of its task queue; a-z 0-9 _ -.
        per_second: how many attempts and look-ups may begin in a second. An operator changes it for the whole fleet
            while it runs: `perdure limit`.

    Raises:
        DeclarationError: `per_second` is no rate.

    Example:
        >>> RateLimit("payments", per_second=10).per_second
        10
    """

    name: str
    per_second: float

    def __post_init__(self) -> None:
        check_name("limit", self.name)
        if not (math.isfinite(self.per_second) and self.per_second > 0):
            raise DeclarationError(
                f"RateLimit({self.name!r}, per_second={self.per_second}): it must be a number above zero; "
                "one every ten seconds is 0.1"
            )

    def task_queue(self, lifecycles: str) -> str:
        """Where its attempts wait, for lifecycles whose own task queue is `lifecycles`."""
        return f"{lifecycles}{BETWEEN}{self.name}"


class Limited(Protocol):
    """What may have a limit: an effect or a look-up."""

    @property
    def limit(self) -> RateLimit | None:
        """What it keeps to, if anything."""


def limits_of(contracts: Iterable[Limited]) -> dict[str, RateLimit]:
    """The limits that they keep to, by name.

    Raises:
        DeclarationError: two different ones have the same name.
    """
    found: dict[str, RateLimit] = {}
    for limit in (each.limit for each in contracts if each.limit is not None):
        known = found.setdefault(limit.name, limit)
        if known != limit:
            raise DeclarationError(
                f"two limits are named {limit.name!r}, of {known.per_second:g} and {limit.per_second:g} a second: "
                "declare it once and give it to all that share it"
            )
    return dict(sorted(found.items()))
