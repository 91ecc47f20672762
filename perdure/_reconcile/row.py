"""An open entity as a reconciliation finds it on record."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from perdure._reconcile.context import Context
from perdure.contracts.keys import Entity


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the query `open_for_reconciliation`.

    Attributes:
        written_at: when its workflow wrote last, or when it was started.
        input: as JSON text; None where there is none, or where it is too large to be looked at.
        doubts: its effects in doubt, where it needs a person.
    """

    entity: Entity
    state: str
    since: datetime
    stuck_at: datetime | None
    attention: str | None
    created_at: datetime
    written_at: datetime
    version: int
    input: str | None
    doubts: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, row: asyncpg.Record) -> Row:
        """As the query gives it.

        Raises:
            InvalidEntity: SQL lets through ids that Python would not.
        """
        return cls(
            entity=Entity(row["lifecycle"], row["id"], row["generation"]),
            doubts=tuple(json.loads(row["doubts"] or "[]")),
            **{
                name: row[name]
                for name in (
                    *("state", "since", "stuck_at", "attention", "created_at", "written_at", "version", "input"),
                )
            },
        )

    def is_young(self, context: Context) -> bool:
        """Whether what is seen of it may be on its way to be put right."""
        return self.written_at >= context.younger_than

    def command(self, verb: str, *more: str) -> str:
        """`perdure VERB LIFECYCLE ID ...`, to be pasted into a shell."""
        return shlex.join(["perdure", verb, self.entity.lifecycle, self.entity.id, *more])
