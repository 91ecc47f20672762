"""The console beside a demo that stays up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import asyncpg

from perdure import App, Settings
from perdure.console import Identity, InsecureLocal, console
from perdure.console.serving import address, listen, serve


class ServedConsole:
    """The console on a port of its own.

    Args:
        identity: who is let in; None = whoever uses this machine.

    Attributes:
        url: where.
    """

    def __init__(self, config: Settings, app: App, folder: Path, identity: Identity | None = None) -> None:
        self._console = console(identity or InsecureLocal(), app=app, config=config, folder=folder)
        self._listening = listen("127.0.0.1", 0)
        self.url = address(self._listening)

    @property
    def invitation(self) -> str:
        """The closing line of a demo that leaves something to settle."""
        return f"Everything stays up until Ctrl-C. Settle what is in doubt: [link]{self.url}inbox[/link]"

    async def run(self, stop: Awaitable[object] | None = None) -> None:
        """Serve until `stop`; None = until Ctrl-C."""
        await serve(self._console, self._listening, stop or asyncio.Event().wait())


async def until_a_person_is_asked(dsn: str) -> None:
    """Wait until all that is open waits for a person.

    Raises:
        TimeoutError: it does not within three minutes.
    """
    connection = await asyncpg.connect(dsn)
    try:
        async with asyncio.timeout(180):
            while not await connection.fetchval("select bool_and(attention is not null) from perdure.entity"):
                await asyncio.sleep(0.2)
    finally:
        await connection.close()
