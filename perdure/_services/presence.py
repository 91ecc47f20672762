"""The note of a relay in the database: which lifecycles it delivers, and whether commits notify it."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from datetime import timedelta
from math import inf

from perdure._services.listener import Listener
from perdure._store.bounds import bounds
from perdure._store.postgres import Pool
from perdure._store.schema import Connection
from perdure._store.sql import queries, shared
from perdure.logs import log_event

query = queries(__name__)

log = logging.getLogger("perdure.relay")

NOTED_EVERY = 5.0
"""Seconds between two notes that a relay runs. A relay without a note for a minute counts as gone."""
LOOK_EVERY = 60.0
"""Seconds between two looks for times in the future, rows with names that no relay has, and messages left behind."""
PATIENCE = timedelta(hours=1)
"""A row is rejected if it has been due, and no relay has had its lifecycle or signal, for this time. Only a relay that
has run for this time rejects it."""
_WHOLE_OUTBOX = bounds(statement="20s")
"""For a statement that reads the whole outbox, which may hold very many rows that the app requested for later."""
_FIRST_MESSAGE = ("", "", 0, "")


class Presence:
    """Notes in the database that a relay runs.

    Args:
        id: the name of the relay.
        lifecycles: the lifecycles whose rows it delivers.
        signals: the signals that these take, as `lifecycle.signal`.
        listener: receives the notifications of commits.
        many: number of notifications per second from which on they are switched off.
    """

    def __init__(
        self, id: str, lifecycles: Sequence[str], signals: Sequence[str], listener: Listener, *, many: int
    ) -> None:
        self.id = id
        self._lifecycles = list(lifecycles)
        self._signals = list(signals)
        self._listener = listener
        self._many = many
        self.notified = False
        """Whether commits notify the relay."""
        self.noted_at = self.looked_at = -inf
        self._message: tuple[object, ...] = _FIRST_MESSAGE

    async def note(self, connection: Connection, after: float = NOTED_EVERY) -> None:
        """Note that the relay runs, if the last note is `after` seconds old. At times, look for times in the future,
        for rows with names that no relay has, and for messages that are left behind."""
        now = time.monotonic()
        if now < self.noted_at + after:
            return
        await connection.execute(query("relay_seen"), self.id, self._lifecycles, self._signals)
        self.noted_at = now
        self._listener.received = 0
        if looks := now >= self.looked_at + LOOK_EVERY:
            self.looked_at = now
            async with connection.transaction():
                await connection.execute(_WHOLE_OUTBOX)
                await connection.execute(query("clock_went_back"))
            async with connection.transaction():
                await connection.execute(_WHOLE_OUTBOX)
                await self._look_for_unknown_names(connection)
        if looks or self._message != _FIRST_MESSAGE:  # after a full page, the next one comes with the next note
            self._message = tuple(await connection.fetchrow(query("messages_over"), *self._message) or _FIRST_MESSAGE)

    async def choose_notice(self, connection: Connection, *, busy: bool) -> bool:
        """Let commits notify this relay while they are few, and while it is not `busy`. The next poll finds the rows of
        earlier commits. Returns False if there are many."""
        many = self._listener.received > self._many * NOTED_EVERY
        wanted = self._listener.listens and not many and (self.notified or not busy)
        if wanted != self.notified:
            self._listener.received = 0
            await connection.execute(query("ask_notice"), self.id, wanted)
            self.notified = wanted
        return not many

    async def leave(self, pool: Pool) -> None:
        """Note that this relay has stopped. Its names count as known as long as those of one that was killed."""
        self.noted_at = -inf
        async with pool.acquire(timeout=1) as connection:
            await connection.execute(query("relay_gone"), self.id, timeout=1)

    async def _look_for_unknown_names(self, connection: Connection) -> None:
        for row in await connection.fetch(shared("unknown_names")):
            about = {"rows": row["waiting"], "since": row["since"]}
            log_event(log, f"rows wait: no running worker has {row['name']}", level=logging.WARNING, **about)
        await connection.execute(query("look_after_declined"))
        rejected = await connection.fetchval(query("reject_unknown"), self.id, PATIENCE)
        if rejected:
            log_event(log, "rejected rows that name what no relay has", level=logging.ERROR, rows=rejected)
