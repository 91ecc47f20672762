"""An act on many outlasts an absence of the database: what had no answer is done then, unless it was done before."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TypeVar

from perdure._operations.acts import Acts
from perdure._operations.audit import read_reasons
from perdure._store.postgres import answering
from perdure._store.schema import Connection
from perdure.contracts.keys import Entity
from perdure.errors import DatabaseUnavailable, PerdureError, TemporalUnavailable

T = TypeVar("T")
EVERY = 0.5
"""Seconds between two looks whether the database answers again."""
TRIES = 3
"""Of an act or a query that has no answer although the database answers, as where another transaction holds the
entity."""


@dataclass
class Lasting:
    """The acts of one job.

    Attributes:
        reading: a transaction that only reads.
        stop: once it is set, nothing is waited for.
        away: why it waits; None = the database answers.
    """

    acts: Acts
    reading: Callable[[], AbstractAsyncContextManager[Connection]]
    stop: asyncio.Event
    away: str | None = None
    _last_away: float = field(default=0.0, init=False)
    """When the database was away last, by the monotonic clock."""

    async def begin(self) -> datetime:
        """The time, by the database's clock."""
        return await self.read(_now)

    async def read(self, query: Callable[[Connection], Awaitable[T]]) -> T:
        """What a query gives, once the database answers. It is made again where its connection is lost meanwhile.

        Raises:
            DatabaseUnavailable: it has no answer although the database answers.
        """
        unanswered = DatabaseUnavailable("PostgreSQL did not answer")
        for _ in range(TRIES):
            await self._back(unanswered)
            try:
                async with self.reading() as connection:
                    return await query(connection)
            except DatabaseUnavailable as error:
                unanswered = error
        raise unanswered

    async def act(
        self, do: Callable[[], Awaitable[str]], entity: Entity, recorded: Callable[[str], bool], since: datetime
    ) -> str:
        """Do it for one entity, once. It is refused if it was accepted before: then the record shows whose act it was.

        Args:
            recorded: whether the reason of a record is that of this act.
            since: when the job began.

        Raises:
            PerdureError: it was refused.
            DatabaseUnavailable, TemporalUnavailable: no answer; whether it was accepted is not known.
        """
        unanswered: PerdureError | None = None
        began = time.monotonic()
        for _ in range(TRIES):
            try:
                return await do()
            except (DatabaseUnavailable, TemporalUnavailable) as error:
                is_first, unanswered = unanswered is None, error
                await self._back(error)
                # A worker that can't write answers no request.
                if is_first and isinstance(error, TemporalUnavailable) and self._last_away < began:
                    raise
            except PerdureError:
                if unanswered is not None and await self._is_on_record(entity, recorded, since):
                    return "on record"  # it was accepted, before it was tried again
                raise
        assert unanswered is not None
        raise unanswered

    async def _is_on_record(self, entity: Entity, recorded: Callable[[str], bool], since: datetime) -> bool:
        reasons = partial(read_reasons, entity=entity, by=self.acts.asked.by, since=since)
        return any(map(recorded, await self.read(reasons)))

    async def _back(self, error: PerdureError) -> None:
        while not await self._answers():
            self.away, self._last_away = str(error), time.monotonic()
            if self.stop.is_set():
                raise error
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stop.wait(), EVERY)
        self.away = None

    async def _answers(self) -> bool:
        try:
            with answering():
                async with self.acts.pool.acquire() as connection:
                    await connection.fetchval("select 1")
        except DatabaseUnavailable:
            return False
        return True


async def _now(connection: Connection) -> datetime:
    now: datetime = await connection.fetchval("select clock_timestamp()")
    return now
