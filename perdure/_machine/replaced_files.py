"""Restarts a process that reads its certificates only at its start, after they have been replaced.

Temporal's server reads those for PostgreSQL once. Each of its later connections would still show the old ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from perdure._services.service import Service
from perdure._text.privacy import describe
from perdure._worker.child import Child
from perdure.errors import UnusableFile
from perdure.logs import log_event

log = logging.getLogger("perdure.up")

LOOK_EVERY = 10.0
"""Seconds between two looks at the files."""


class ReplacedFiles(Service):
    """Restarts a process each time that its files have changed and can be used. If they cannot be used, it logs that,
    and the process continues with what it has read.

    Args:
        child: the process.
        files: that it reads.
        check: connects with the present files; raises if they can't be used.
        every: seconds between two looks.
    """

    def __init__(
        self, child: Child, files: Iterable[Path], check: Callable[[], Awaitable[None]], every: float = LOOK_EVERY
    ) -> None:
        super().__init__(f"certificates of {child.name}", every)
        self._child, self._files, self._check = child, tuple(files), check
        self._used = _contents(self._files)

    async def once(self) -> bool:
        """See base class.

        Raises:
            UnusableFile: the present files can't be used.
        """
        found = await asyncio.to_thread(_contents, self._files)
        if found == self._used:
            return False
        try:
            await self._check()
        except Exception as error:  # whatever it is, the process goes on with what it has
            raise UnusableFile(f"replaced files can't be used yet: {describe(error)}") from error
        self._used = found
        log_event(log, "certificates were replaced: the process is restarted, to read them", process=self._child.name)
        self._child.terminate()
        return False


def _contents(files: tuple[Path, ...]) -> list[bytes | None]:
    return [file.read_bytes() if file.is_file() else None for file in files]
