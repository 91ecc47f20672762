"""A process that a demo starts, kills and starts again."""

from __future__ import annotations

import asyncio

from perdure.servers.guard import GuardedProcess


class Restartable:
    """Whoever starts it sets `_process`."""

    _process: GuardedProcess | None = None

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL: no chance to clean up, what it works on is left in the middle."""
        assert self._process is not None
        self._process.kill()

    async def end(self) -> None:
        """SIGTERM and wait; SIGKILL if that takes longer than its grace time allows."""
        if self._process is not None and self._process.running:
            await asyncio.to_thread(self._process.stop)
