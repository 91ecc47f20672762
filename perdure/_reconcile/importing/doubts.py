"""The effects that an older job may have performed for a row, and the records that put them in doubt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from perdure._reconcile.importing.existing_work import Row
from perdure._workflow.lifecycle import Lifecycle
from perdure.app import name_of
from perdure.contracts.effects import Effect
from perdure.contracts.keys import Entity, Key, slot_of
from perdure.contracts.policies import Dedupe
from perdure.errors import DeclarationError

_Performance: TypeAlias = "tuple[Effect[Any, Any], str | None]"
"""An effect, and the suffix of its performance."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """The effects that a row in one of the statuses `processing` may have performed already.

    Attributes:
        processing: statuses of rows that an older job may have begun.
        performances: the effects of that job.
    """

    processing: tuple[str, ...]
    performances: tuple[_Performance, ...]

    @classmethod
    def of(cls, lifecycle: type[Lifecycle[Any, Any]], processing: Sequence[str], slots: Sequence[str]) -> Doubt:
        """The doubt of a lifecycle's rows.

        Args:
            slots: names of effects, each with `/suffix` if it has one; none = the lifecycle's only effect.

        Raises:
            DeclarationError: the lifecycle has no such effect, or has several and none is named.
        """
        found = [_performance(lifecycle, slot) for slot in slots or ("",)]
        return cls(tuple(processing), tuple(dict.fromkeys(found)))

    def records(self, entity: Entity, row: Row) -> list[dict[str, Any]]:
        """The records of the effects of a row."""
        if row.status not in self.processing:
            return []
        return [
            {
                "effect": slot_of(effect.name, suffix),
                "key": Key.of(entity, effect.identity, suffix),
                # The other side has no key of ours for the older job's call, so no window is open.
                "since": None if isinstance(effect.doubt, Dedupe) else row.since,
                "timeout": f"{effect.timeout.total_seconds():f} s",
            }
            for effect, suffix in self.performances
        ]


def _performance(lifecycle: type[Lifecycle[Any, Any]], slot: str) -> _Performance:
    name, _, suffix = slot.partition("/")
    fitting = [each for each in lifecycle.effects if not slot or name in each.names]
    if len(fitting) != 1:
        names = ", ".join(each.name for each in lifecycle.effects) or "none"
        asked = f"has no effect {name!r}" if slot else "does not have exactly one effect"
        raise DeclarationError(f"{name_of(lifecycle)} {asked}: give --effect one of these: {names}")
    return fitting[0], suffix or None
