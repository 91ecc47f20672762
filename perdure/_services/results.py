"""Records the results of a batch: each undelivered row is tried again later, left to other relays, or rejected."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from temporalio.service import RPCError

from perdure._services.delivery import NotYet, Row, Undeliverable, Unreadable
from perdure._services.line import Line, columns
from perdure._store.schema import Connection
from perdure._store.sql import queries
from perdure._text.privacy import reason
from perdure.errors import TemporalUnavailable
from perdure.logs import log_event

query = queries(__name__)

log = logging.getLogger("perdure.relay")

TEMPORAL_ERRORS = (TemporalUnavailable, RPCError, TimeoutError, OSError)
"""Errors of Temporal or of the connection to it, of which no row is the cause."""


class Results:
    """Records results in the transaction of a batch.

    Args:
        relay: the name of the relay.
        first: the initial state of each lifecycle.
    """

    def __init__(self, relay: str, first: Mapping[str, str]) -> None:
        self._relay = relay
        self._first = first

    async def record(self, connection: Connection, lines: Sequence[Line], *, away: bool) -> None:
        """Record the results. An undelivered row is tried again later, each row by itself.

        While Temporal is `away`, no row is the cause. Only the first row is put off, so that the next probe is another
        row: Temporal may be unable to accept this one.
        """
        await self._delivered(connection, lines)
        postponed = False
        for line in lines:
            if line.declined is not None:
                await self._decline(connection, line)
            for row, why in line.rejected:
                await _reject(connection, row, why)
            if line.failed is not None and not (away and postponed):
                await _postpone(connection, *line.failed)
                postponed = True
            elif line.held:
                first = line.rows[0]
                await connection.execute(query("hold"), first["lifecycle"], first["id"], line.held_until)

    async def _delivered(self, connection: Connection, lines: Sequence[Line]) -> None:
        delivered = [row for line in lines for row in line.delivered]
        if delivered:
            states = [self._first_state(row) for row in delivered]
            await connection.execute(query("delivered"), *columns(delivered, "lifecycle", "id", "seq"), states)
        moved = [
            line.rows[0]
            for line in lines
            if (line.delivered or line.rejected) and any(row["declined"] for row in line.rows)
        ]
        if moved:
            await connection.execute(query("reopen"), *columns(moved, "lifecycle", "id"))

    def _first_state(self, row: Row) -> str | None:
        """The state that a start leads to; None for another row."""
        return self._first.get(row["lifecycle"]) if row["kind"] == "start" else None

    async def _decline(self, connection: Connection, line: Line) -> None:
        """Leave the row to relays with newer code. If no relay is left that may read it, it is rejected."""
        assert line.declined is not None
        row, why = line.declined
        key = row["lifecycle"], row["id"], row["seq"]
        alone = await connection.fetchval(query("decline"), *key, self._relay)
        if alone and isinstance(why, Unreadable):
            line.reject(row, why)
            await connection.execute(query("reopen"), [row["lifecycle"]], [row["id"]])


async def _postpone(connection: Connection, row: Row, error: BaseException) -> None:
    if not isinstance(error, (NotYet, *TEMPORAL_ERRORS)):
        log.error("delivering %s/%s failed", row["lifecycle"], row["id"], exc_info=error)
    why = error.message[:500] if isinstance(error, RPCError) else reason(error)[:500]
    await connection.execute(query("postpone"), row["lifecycle"], row["id"], row["seq"], why)


async def _reject(connection: Connection, row: Row, why: Undeliverable) -> None:
    """Reject the row, and note that in its entity. If another session holds the row of the entity, which would make the
    whole batch fail, the row is tried again later."""
    if await connection.fetchval(query("entity_held"), row["lifecycle"], row["id"]):
        await _postpone(connection, row, NotYet(f"it will be rejected once no other session holds its entity: {why}"))
        return
    log_event(log, "rejected", level=logging.ERROR, lifecycle=row["lifecycle"], id=row["id"], why=str(why))
    await connection.execute(query("reject"), row["lifecycle"], row["id"], row["seq"], str(why))
    attention = f"rejected: {why}" if row["kind"] == "start" else f"a message was rejected: {why}"
    await connection.execute(query("want_attention"), row["lifecycle"], row["id"], attention)
