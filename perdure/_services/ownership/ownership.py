"""Exchanges the database's mark with Temporal, so that a copy, or an older state, is recognised before it sends
anything.

The exchange takes place at a worker's start, at intervals by one worker of the fleet, and at once if PostgreSQL was not
verified since its start.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable

import asyncpg

from perdure._services.ownership.exchange import CLAIM, WAYS_OUT, Exchange, incarnation_of
from perdure._services.service import EXPECTED_ERRORS, Service
from perdure._store.postgres import Pool
from perdure._store.schema import Connection
from perdure._store.sql import queries, shared
from perdure._wire.keeper import TICK, Decision, Incarnation, Proposal, Reply
from perdure.errors import NotThisDatabase, TemporalUnavailable
from perdure.logs import log_event

query = queries(__name__)

log = logging.getLogger("perdure.ownership")

_NOT_VERIFIED = "not verified"
"""The result of `perdure.database_problem` until the mark was exchanged."""
_AT_START = 30.0
"""Seconds that a starting worker waits for Temporal's answer."""
_LOG_AGAIN = 60.0


def is_stopped(problem: str | None) -> bool:
    """Whether a database with this result of `perdure.database_problem` sends nothing until a person has claimed it. A
    server that was started, and not verified since, is verified by a worker."""
    return problem not in (None, _NOT_VERIFIED)


class Ownership(Service):
    """Exchanges the database's mark when it is time.

    Args:
        pool: the app's database.
        exchange: the exchange with the keeper.
        verified: called when writes are possible again.
    """

    LONGEST_PAUSE = 2.0

    def __init__(self, pool: Pool, exchange: Exchange, verified: Callable[[], None] = lambda: None) -> None:
        super().__init__("ownership", every=min(1.0, TICK / 2))
        self._pool = pool
        self._exchange = exchange
        self._verified = verified
        self._tick = TICK
        self._came_from: Incarnation | None = None
        self._logged: tuple[str, float] = "", 0.0

    async def claim(self) -> None:
        """Before a worker takes work, bind the database, or check that it is the bound one.

        Raises:
            NotThisDatabase: it is not the bound one. The message names the way out.
            TemporalUnavailable: Temporal does not answer, and no work may begin before it has.
        """
        until = time.monotonic() + _AT_START
        while True:
            row = await self._row()
            await self._exchange.check_binding(row)
            if is_stopped(row["problem"]):
                raise NotThisDatabase(f"{row['problem']}: {WAYS_OUT}")
            verified = row["mark"] is not None and row["problem"] is None
            if verified and row["age"] < self._tick:
                return
            reply, why = None, "another worker is checking"
            try:
                reply = await self._swap()
            except (NotThisDatabase, asyncpg.ReadOnlySQLTransactionError):
                raise
            except EXPECTED_ERRORS as error:
                why = repr(error)
            late = reply is None and (verified or time.monotonic() > until)
            if late and row["mark"] is None:
                raise TemporalUnavailable(f"Temporal has not answered what database this is: {why}")
            if late or (reply is not None and reply.decision is Decision.WAIT):
                return  # without a verification no write is possible
            if reply is None:
                await asyncio.sleep(0.1)

    async def once(self) -> bool:
        """Exchange the mark if it is time, or if no write is possible before."""
        row = await self._row()
        self.held_up = None if row["problem"] is None else f"nothing is sent from here: {row['problem']}"
        if is_stopped(row["problem"]):
            self._log_stop(row["problem"])
            return False
        if row["problem"] is None and row["mark"] is not None:
            self._came_from = incarnation_of(row)
            if row["age"] < self._tick:
                return False
        await self._swap()
        return False

    async def _swap(self) -> Reply | None:
        """Make one exchange. Returns None if another worker makes it now."""
        async with self._pool.acquire(timeout=5) as connection, connection.transaction():
            if not await connection.fetchval(query("database_if_free")):
                return None
            row = await connection.fetchrow(shared("database"))
            assert row is not None
            if row["stopped"] or (row["problem"] is None and row["mark"] and row["age"] < self._tick):
                return None
            await self._exchange.check_binding(row)
            proposal = self._proposal(row)
            reply = await self._exchange.propose(proposal)
            if reply.decision is Decision.AGAIN:
                row = await connection.fetchrow(shared("database"))
                assert row is not None
                proposal = self._proposal(row).model_copy(update={"response": reply.challenge})
                reply = await self._exchange.propose(proposal)
            await self._apply(connection, proposal, reply)
        if reply.decision is Decision.GO:
            self._came_from = proposal.incarnation
            if row["problem"] is not None or row["mark"] is None:
                log_event(log, "verified", database=str(proposal.incarnation), epoch=reply.epoch)
                self._verified()
        elif reply.decision is Decision.STOP and row["mark"] is None:
            raise NotThisDatabase(f"{reply.why}: choose another PERDURE_SCOPE; or {CLAIM}")
        else:
            self._log_stop(reply.why)
        return reply

    async def _apply(self, connection: Connection, proposal: Proposal, reply: Reply) -> None:
        if reply.decision is Decision.GO:
            await self._exchange.write_down(connection, proposal, reply)
        elif reply.decision is Decision.STOP and proposal.mark is not None:
            await connection.execute(query("stop_database"), reply.why)

    def _proposal(self, row: asyncpg.Record) -> Proposal:
        return Proposal(
            mark=row["mark"],
            next=secrets.token_hex(16),
            incarnation=incarnation_of(row),
            epoch=row["epoch"],
            came_from=self._came_from,
        )

    async def _row(self) -> asyncpg.Record:
        async with self._pool.acquire(timeout=5) as connection:
            row = await connection.fetchrow(shared("database"))
        assert row is not None
        return row

    def _log_stop(self, why: str) -> None:
        last, at = self._logged
        if why != last or time.monotonic() > at + _LOG_AGAIN:
            log_event(log, "nothing is sent from here", level=logging.ERROR, why=f"{why}; {WAYS_OUT}")
            self._logged = why, time.monotonic()
