"""Reads the record of reconciliations."""

from __future__ import annotations

import json
from typing import Any

from perdure._store.schema import Connection
from perdure._store.sql import queries
from perdure._wire.reconciliation import Named

query = queries(__name__)


async def last_reconciliation(connection: Connection) -> dict[str, Any] | None:
    """The last whole reconciliation; None = there was none."""
    row = await connection.fetchrow(query("last_reconciliation"))
    return None if row is None else {**row, "summary": json.loads(row["summary"] or "{}")}


async def findings_left(connection: Connection, only: Named | None, most: int) -> list[dict[str, Any]]:
    """The findings that are left for a person, the oldest first."""
    one = (None, None) if only is None else (only.lifecycle, only.id)
    return [dict(row) for row in await connection.fetch(query("findings_left"), *one, most)]
