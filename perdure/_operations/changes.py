"""Whether anything has changed: a word that differs from the one before."""

from __future__ import annotations

from perdure._store.schema import Connection
from perdure._store.sql import queries

query = queries(__name__)


async def newest_change(connection: Connection, lifecycle: str | None, entity_id: str | None) -> str | None:
    """Of one entity, or of everything."""
    found: str | None = await connection.fetchval(query("newest_change"), lifecycle, entity_id)
    return found
