"""Finds rows whose lifecycle was started under another spelling of their key.

An entity is found by the text of its id. The app may have written a UUID in capitals or without hyphens, and PostgreSQL
writes it otherwise: the row would get a second lifecycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perdure._store.schema import Connection
from perdure._store.sql import queries
from perdure.errors import InvalidEntity

query = queries(__name__)


async def spelled_otherwise(db: Connection, lifecycle: str, ids: Sequence[str]) -> Mapping[str, InvalidEntity]:
    """Those of the ids of rows under which no lifecycle may be started, with the reason."""
    rows = await db.fetch(query("spelled_otherwise"), lifecycle, ids)
    return {row["id"]: _refusal(lifecycle, row["other"]) for row in rows}


def _refusal(lifecycle: str, other: str) -> InvalidEntity:
    return InvalidEntity(
        f"{lifecycle} was started with this UUID as {other!r}: give a query whose id has the same spelling, or the row "
        "would get a second lifecycle"
    )
