"""The event feed: every transition once, each entity's in order, for a follower that stores only a position."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING

import asyncpg

from perdure._store.bounds import bounds
from perdure._store.postgres import answering
from perdure._store.schema.kinds import Kind
from perdure._store.schema.rights import permitting
from perdure.client.records import Event
from perdure.errors import DatabaseUnavailable, InvalidPosition
from perdure.logs import log_event

if TYPE_CHECKING:
    from perdure._store.postgres import Pool

log: logging.Logger = logging.getLogger("perdure.feed")

PAGE = 500
"""Events for each query to the database."""
SHORTEST, LONGEST = 0.05, 1.0
"""Seconds between two polls while no event comes: the first pause, and the longest one."""
_PATIENCE, _LONG_PATIENCE = 5.0, 300.0
"""Seconds for a poll, and for a poll after days, whose events PostgreSQL must sort first."""


async def follow(pool: Pool, after: str | None, *, wait: bool) -> AsyncIterator[Event]:
    """Events after a position; see `Client.feed`."""
    pause = SHORTEST
    while True:
        try:
            page = await _page(pool, after)
        except DatabaseUnavailable as error:
            if not wait:
                raise
            log_event(log, "feed: failed, goes on", level=logging.WARNING, why=str(error))
            page = []
        for event in page:
            yield event
            after = event.position
        if not page and not wait:
            return
        pause = SHORTEST if page else pause
        if len(page) < PAGE:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, LONGEST)


async def position(pool: Pool, since: datetime | None) -> str:
    """A first position; see `Client.feed_position`."""
    async with _answering(pool):
        return str(await pool.fetchval("select perdure.feed_position($1)", since))


async def _page(pool: Pool, after: str | None) -> list[Event]:
    call = "select * from perdure.feed($1, $2)"
    try:
        async with _answering(pool):
            try:
                rows = await pool.fetch(call, after, PAGE, timeout=_PATIENCE)
            except asyncpg.QueryCanceledError:  # the pool's statement_timeout is meant for writes
                async with pool.acquire() as connection, connection.transaction():
                    await connection.execute(bounds(statement="0"))
                    rows = await connection.fetch(call, after, PAGE, timeout=_LONG_PATIENCE)
    except (asyncpg.ObjectNotInPrerequisiteStateError, asyncpg.DataError) as error:
        parts = (error.args[0], getattr(error, "detail", None), getattr(error, "hint", None))
        raise InvalidPosition(". ".join(part.rstrip(".") for part in parts if part)) from error
    return [Event(**row) for row in rows]


@asynccontextmanager
async def _answering(pool: Pool) -> AsyncIterator[None]:
    try:
        with answering():
            async with permitting(pool, Kind.READER, Kind.APP):
                yield
    except asyncpg.LockNotAvailableError as error:  # such as of a migration; it is of the class of an invalid position
        raise DatabaseUnavailable("the feed: another transaction holds a lock on it: try again later") from error
