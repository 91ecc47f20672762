"""Checks whether this Temporal is the one that the database worked with, and binds the database to a new one."""

from __future__ import annotations

from collections.abc import Callable

from perdure._services.ownership.claiming import take_over
from perdure._services.ownership.exchange import CLAIM, Exchange
from perdure._store.schema import Connection
from perdure._store.sql import shared
from perdure._wire.keeper import SILENCE, TEMPORAL_LOST
from perdure.errors import NotNow, NotThisDatabase


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


async def rebind(
    connection: Connection, exchange: Exchange, report: Callable[[str], None], *, put_back: bool = False
) -> None:
    """Bind the database to this Temporal, if a worker has ever run on it. The epoch continues, unless PostgreSQL has
    another timeline than at the last exchange: that server was promoted or restored, and its last commits may be lost.

    Args:
        report: receives the reason of each wait, and of a new epoch.
        put_back: whether Temporal was put back to an earlier point, so that it does not know the database's last mark.

    Raises:
        NotThisDatabase: the database may be a copy or an older state; or another server has the mark, and is alive.
        TemporalUnavailable: Temporal gave no answer.
    """
    row = await connection.fetchrow(shared("database"))
    assert row is not None
    if row["mark"] is None:
        return
    is_copy = (row["system_identifier"], row["database_oid"]) != (row["known_system"], row["known_oid"])
    is_older = row["stopped"] is not None and not (put_back or row["stopped"].startswith(TEMPORAL_LOST))
    if is_copy or is_older:
        raise NotThisDatabase(f"{row['problem']}: {CLAIM}; then run this again")
    is_restored = (row["timeline"] or 0) != row["known_timeline"]
    if is_restored:
        report(
            f"PostgreSQL was promoted or restored (timeline {row['timeline']}, before {row['known_timeline']}), so a "
            "new epoch begins: what was ordered before and has no record is in doubt"
        )
    async with exchange.answering():
        await take_over(connection, exchange, "restored" if is_restored else "moved", report)
