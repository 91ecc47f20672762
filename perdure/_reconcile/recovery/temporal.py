"""Checks whether this Temporal is the one that the database worked with, and binds the database to a new one."""

from __future__ import annotations

from collections.abc import Callable

from perdure._services.ownership.claiming import take_over
from perdure._services.ownership.exchange import Exchange
from perdure._store.schema import Connection
from perdure._store.sql import shared
from perdure._wire.keeper import SILENCE
from perdure.errors import NotNow


async def why_lost(connection: Connection, exchange: Exchange) -> str | None:
    """Why all data of Temporal counts as lost; None if it does not.

    Raises:
        NotNow: the Temporal that the database worked with answered a moment ago.
        NotThisDatabase: the database works with another scope.
    """
    row = await connection.fetchrow(shared("database"))
    assert row is not None
    why = await exchange.why_lost(row)
    if why is not None and row["problem"] is None and row["age"] < SILENCE:
        raise NotNow(
            f"this is not the Temporal that the database works with ({why}), and that one answered {row['age']:.0f} s "
            "ago: correct TEMPORAL_ADDRESS or TEMPORAL_NAMESPACE; or stop the workers that still run with it"
        )
    return why


async def rebind(connection: Connection, exchange: Exchange, report: Callable[[str], None]) -> None:
    """Bind the database to this Temporal, if a worker has ever run on it. The database has lost nothing, so its epoch
    continues.

    Raises:
        NotThisDatabase: another server has the mark, and is alive.
        TemporalUnavailable: Temporal gave no answer.
    """
    row = await connection.fetchrow(shared("database"))
    assert row is not None
    if row["mark"] is None:
        return
    async with exchange.answering():
        await take_over(connection, exchange, "moved", report)
