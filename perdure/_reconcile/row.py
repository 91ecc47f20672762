"""The record of an open entity, for a reconciliation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from perdure._reconcile.context import Context
from perdure._text.shown import command
from perdure.contracts.keys import Entity


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the query `open_for_reconciliation`.

    Attributes:
        written_at: time of the workflow's last write, or of the start.
        input: the input as JSON text; None if there is none, or it is too large to be checked.
        doubts: the entity's effects in doubt, if it needs a person.
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
        """Make it from a row of the query.

        Raises:
            InvalidEntity: SQL accepts ids that Python refuses.
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
        """Whether the row is so young that the normal path may still correct it."""
        return self.written_at >= context.younger_than

    def command(self, verb: str, *more: str) -> str:
        """The command `perdure VERB` about this entity, to be pasted into a shell."""
        return command(verb, self.entity.lifecycle, self.entity.id, *more)
