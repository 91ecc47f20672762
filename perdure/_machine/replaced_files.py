"""Restarts a process that reads its certificates only at its start, after they have been replaced.

Temporal's server reads those for PostgreSQL once. Each of its later connections would still show the old ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from perdure._text.privacy import describe
from perdure._worker.child import Child
from perdure.logs import log_event

log = logging.getLogger("perdure.up")

LOOK_EVERY = 10.0
"""Seconds between two looks at the files."""


async def restart_when_replaced(
    child: Child, files: Iterable[Path], check: Callable[[], Awaitable[None]], every: float = LOOK_EVERY
) -> None:
    """Restart the process each time that its files have changed and can be used, until this is cancelled.

    Args:
        child: the process.
        files: that it reads.
        check: connects with the present files; raises if they can't be used.
        every: seconds between two looks.
    """
    files = tuple(files)
    used = tried = _contents(files)
    while True:
        await asyncio.sleep(every)
        found = await asyncio.to_thread(_contents, files)
        if found == used:
            continue
        try:
            await check()
        except Exception as error:  # whatever it is, the process goes on with what it has
            if found != tried:
                log_event(log, "replaced files can't be used yet", level=logging.ERROR, error=describe(error))
            tried = found
            continue
        used = tried = found
        log_event(log, "certificates were replaced: the process is restarted, to read them", process=child.name)
        child.terminate()


def _contents(files: tuple[Path, ...]) -> list[bytes | None]:
    return [file.read_bytes() if file.is_file() else None for file in files]
