"""Listens for the notifications of commits that add to the outbox, so that a relay need not poll often."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg

from perdure._services.service import Service
from perdure._store.connecting import DATABASE_ERRORS, Pool, connect_for_long_work, keeps_sessions

CHANNEL = "perdure_outbox"
"""As in `notify_relays.sql`."""
_AGAIN = 5.0
_LONGEST = 10.0
"""Seconds that the connection may take to listen."""


class Listener(Service):
    """Holds a connection that receives notifications, and opens it again when it is lost.

    Behind PgBouncer in transaction mode a connection receives no notifications, so none is opened.

    Args:
        pool: the app's database, as the relay uses it.
        url: the URL of the same database, for the connection.
        nudge: called at each notification, and when notifications begin to arrive.
    """

    def __init__(self, pool: Pool, url: str, nudge: Callable[[], None]) -> None:
        super().__init__("listener", _AGAIN)
        self._pool = pool
        self._url = url
        self._notify = nudge
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None
        self.received = 0
        """Notifications since the caller last set this to 0."""

    @property
    def listens(self) -> bool:
        """Whether notifications arrive."""
        return self._connection is not None and not self._connection.is_closed()

    async def once(self) -> bool:
        """Open the connection, if there is none."""
        if not self.listens and await keeps_sessions(self._pool):
            connection = await connect_for_long_work(self._url, "perdure listener")
            try:
                async with asyncio.timeout(_LONGEST):
                    await connection.add_listener(CHANNEL, self._received)
            except BaseException:
                connection.terminate()
                raise
            self._connection = connection
            self._notify()  # the caller may wait long for its next look, and can be notified from now on
        return False

    async def stop(self, *, patience: float = 2.0) -> None:
        """See base class."""
        await super().stop(patience=patience)
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                await connection.close(timeout=1)
            except DATABASE_ERRORS:
                connection.terminate()

    def _received(self, *_: Any) -> None:
        self.received += 1
        self._notify()
