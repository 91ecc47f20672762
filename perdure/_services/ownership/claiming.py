"""Declares that a database was copied, restored or moved, so that it may send again (`perdure database claim`)."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import asyncpg

from perdure._services.ownership.exchange import Exchange, incarnation_of
from perdure._store.bounds import bounds
from perdure._store.schema import Connection
from perdure._store.sql import queries, shared
from perdure._wire.keeper import SILENCE, Decision, Proposal, Reply
from perdure.contracts.scopes import scope_setting
from perdure.errors import NotNow, NotThisDatabase, TemporalUnavailable

query = queries(__name__)

_BOUNDS = bounds(lock="10s", statement="0")

_PATIENCE = 30.0
"""Seconds in which a proposal without an answer is made again."""


class What(StrEnum):
    """The kinds of databases in a claim."""

    COPIED = "copied"
    """A copy that is used beside its original, with a scope or namespace of its own."""
    RESTORED = "restored"
    """The original, restored to an earlier point: later commits are lost."""
    MOVED = "moved"
    """The original in another place: no commit is lost, and the old server is not used any more."""


@dataclass(frozen=True, slots=True)
class Found:
    """The database's record, and the numbers of open entities and waiting rows."""

    row: asyncpg.Record
    open: int
    waiting: int

    def __str__(self) -> str:
        row = self.row
        was = f"{scope_setting(row['scope'])}, namespace {row['namespace']!r}, epoch {row['epoch']}"
        return (
            f"on record: {was if row['mark'] else 'bound to nothing yet'}\n"
            f"this server: {incarnation_of(row)}\n"
            f"problem: {row['problem'] or 'none'}\n"
            f"{self.open} open entities, {self.waiting} rows of the outbox"
        )


async def look(connection: Connection) -> Found:
    """Read the facts for a claim."""
    row = await connection.fetchrow(shared("database"))
    assert row is not None
    return Found(
        row,
        await connection.fetchval(query("open_counted")),
        await connection.fetchval(query("outbox_counted")),
    )


async def claim(connection: Connection, exchange: Exchange, what: What, report: Callable[[str], None]) -> str:
    """Declare that this database is `what`. It can be repeated. Returns the result in words.

    Args:
        report: receives the reason of each wait.

    Raises:
        NotThisDatabase: the database cannot be `what`. The message has the reason.
        NotNow: an open transaction of the app has written transitions.
    """
    found = await look(connection)
    if await _is_settled(found.row, what, exchange):
        return "nothing to do: this database is verified with this scope and namespace"
    await _begin_origin(connection)
    if what is What.COPIED:
        return await _make_copy(connection, exchange)
    force: Literal["restored", "moved"] = "restored" if what is What.RESTORED else "moved"
    async with exchange.answering():
        epoch = await take_over(connection, exchange, force, report)
    if what is What.MOVED:
        return f"it has the mark now; nothing was lost, so epoch {epoch} goes on"
    return f"it has the mark now; epoch {epoch} began: what was ordered before and has no record is in doubt"


async def _is_settled(row: asyncpg.Record, what: What, exchange: Exchange) -> bool:
    if row["problem"] is not None:
        return False
    if row["mark"] is None:  # the scope may have the mark of an earlier copy, which this one replaces
        return what is What.COPIED and row["stopped"] is None and row["epoch"] > 0
    try:
        await exchange.check_binding(row)
    except NotThisDatabase:
        return False
    return True


async def _begin_origin(connection: Connection) -> None:
    """Let the feed and the sequences go on behind all rows that came from another server."""
    async with connection.transaction():
        await connection.execute(_BOUNDS)
        try:
            await connection.execute("select perdure.begin_origin()")
        except asyncpg.LockNotAvailableError as error:
            raise NotNow(
                f"another transaction writes transitions into this database ({error}): end it, and run this again"
            ) from error


async def _make_copy(connection: Connection, exchange: Exchange) -> str:
    async with connection.transaction():
        await connection.execute(_BOUNDS)
        row = await connection.fetchrow(query("database_held"))
        assert row is not None
        here = exchange.scope, await exchange.namespace_id()
        if row["mark"] is not None and (row["scope"], row["namespace_id"]) == here:
            raise NotThisDatabase(
                f"a copy can't work with the scope and namespace of its original ({scope_setting(here[0])}, "
                f"{row['namespace']!r}): set another PERDURE_SCOPE or TEMPORAL_NAMESPACE first"
            )
        whose = f"copied from {scope_setting(row['scope'])} in namespace {row['namespace']!r}: belongs to the original"
        rested = await connection.execute(query("rest_outbox"), whose)
        marked = await connection.execute(query("leave_to_original"), whose)
        await connection.execute(query("unbound"))
    return (
        f"{_count(rested)} rows of the outbox were put aside, {_count(marked)} open entities are left to the original"
    )


async def take_over(
    connection: Connection, exchange: Exchange, force: Literal["restored", "moved"], report: Callable[[str], None]
) -> int:
    """Give this database the mark, even if another server has it, and return its epoch. A worker must answer for the
    keeper. Where Temporal gives no answer, it is asked again for half a minute: the question may have been handed to a
    worker that is gone. How long the other server is in use counts from the first answer.

    Raises:
        NotThisDatabase: the server that has the mark is alive.
        TemporalUnavailable: Temporal gave no answer.
    """
    answered, in_use_since = time.monotonic(), None
    while True:
        try:
            reply = await _propose(connection, exchange, force)
        except TemporalUnavailable as error:
            if time.monotonic() > answered + _PATIENCE:
                raise
            report(f"asks again: {error}")
            continue
        if reply.decision is Decision.GO:
            return reply.epoch
        answered = time.monotonic()
        in_use_since = in_use_since or answered
        if reply.decision is not Decision.WAIT or answered > in_use_since + 4 * SILENCE:
            raise NotThisDatabase(f"not claimed: {reply.why}")
        report(f"waits {reply.seconds:.0f} s: {reply.why}")
        await asyncio.sleep(min(reply.seconds, 1.0))


async def _propose(connection: Connection, exchange: Exchange, force: Literal["restored", "moved"]) -> Reply:
    """Propose once, and write the mark if the keeper gives it."""
    async with connection.transaction():
        await connection.execute(bounds(lock="10s", statement="20s"))
        await connection.execute(query("database_held"))
        row = await connection.fetchrow(shared("database"))
        assert row is not None
        proposal = Proposal(
            mark=row["mark"],
            next=secrets.token_hex(16),
            incarnation=incarnation_of(row),
            epoch=row["epoch"],
            force=force,
        )
        reply = await exchange.propose(proposal)
        if reply.decision is Decision.GO:
            await exchange.write_down(connection, proposal, reply)
        return reply


def _count(status: str) -> int:
    return int(status.rpartition(" ")[2])
