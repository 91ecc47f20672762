"""The console beside a demo that stays up, with something in its inbox to settle."""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path

import asyncpg

from activities.comments.contracts import Comment
from perdure import App, Client, Settings
from perdure.console import InsecureLocal, console
from perdure.console.serving import address, listen, serve


async def settle_something(dsn: str) -> None:
    """Commit a comment whose recipient no mail can reach: its notification waits for a person."""
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            row = await connection.fetchrow(
                "insert into comment (post_id, author, body, recipient) values ($1, $2, $3, $4) returning *",
                *(1, "author-1", "The address is wrong.", "nobody at example.org"),
            )
            assert row is not None
            given = Comment(**{name: row[name] for name in Comment.model_fields})
            await Client().start("comment-notification", given.id, given, connection=connection)
    finally:
        await connection.close()


class ServedConsole:
    """The console on a port of its own.

    Attributes:
        url: where.
    """

    def __init__(self, config: Settings, app: App, folder: Path) -> None:
        self._console = console(InsecureLocal(), app=app, config=config, folder=folder)
        self._listening = listen("127.0.0.1", 0)
        self.url = address(self._listening)

    async def run(self, stop: Awaitable[object]) -> None:
        """Serve until `stop`."""
        await serve(self._console, self._listening, stop)
