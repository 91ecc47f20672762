"""The console beside a demo that stays up."""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path

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

    async def run(self, stop: Awaitable[object]) -> None:
        """Serve until `stop`."""
        await serve(self._console, self._listening, stop)
