"""`RateLimit`: the rate of attempts and look-ups that all workers together may begin.

Temporal enforces it as the rate of a task queue. Each limit has a task queue of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from perdure.contracts.argument_types import check_types
from perdure.contracts.keys import check_name
from perdure.errors import DeclarationError

BETWEEN = "."
"""Separates a lifecycle's task queue from the name of a limit, which contains none."""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A rate for all workers of an app together, for example of an account with a provider.

    Args:
        name: part of the name of its task queue; a-z 0-9 _ -.
        per_second: attempts and look-ups that may begin in a second. An operator changes it for all running workers by
            `perdure limit`.

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
        check_types(f"RateLimit({self.name!r}, ...)", float | int, per_second=self.per_second)
        if not (math.isfinite(self.per_second) and self.per_second > 0):
            raise DeclarationError(
                f"RateLimit({self.name!r}, per_second={self.per_second}): it must be a number above zero; "
                "one every ten seconds is 0.1"
            )

    def task_queue(self, lifecycles: str) -> str:
        """Task queue of the limit, for lifecycles whose own task queue is `lifecycles`."""
        return f"{lifecycles}{BETWEEN}{self.name}"


class Limited(Protocol):
    """An effect or a look-up."""

    @property
    def limit(self) -> RateLimit | None:
        """The limit, or None."""


def limits_of(contracts: Iterable[Limited]) -> dict[str, RateLimit]:
    """The limits of these contracts, by name.

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
