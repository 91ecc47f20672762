"""What runs: the relays on record, and the tenants that the open entities belong to."""

from __future__ import annotations

from typing import Any

from perdure._operations.reach import EVERYTHING, Reach
from perdure._store.schema import Connection
from perdure._store.sql import queries

query = queries(__name__)

TENANTS = 100
"""Tenants that are shown, the largest."""


async def read_relays(connection: Connection) -> list[dict[str, Any]]:
    """Those that were seen in the last two hours, and what the app of each declares."""
    return [dict(row) for row in await connection.fetch(query("relays_on_record"))]


async def read_tenants(connection: Connection, reach: Reach = EVERYTHING) -> list[dict[str, Any]]:
    """How many entities of each are open, stuck, or need a person."""
    return [dict(row) for row in await connection.fetch(query("tenants_open"), *reach.columns, TENANTS)]
