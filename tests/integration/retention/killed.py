"""Drops months, each in a process that kills itself before another statement: `python -m ...killed URL MONTH ...`.

Each is a fork of one that has imported everything. Prints how many were killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import asyncpg

from perdure._retention.dropping import drop
from perdure._retention.months import first_day, the_month
from perdure._retention.working import working

_VERBS = ("execute", "fetch", "fetchrow", "fetchval")


async def drop_month(url: str, name: str, statements: int) -> None:
    """As the command does, but for a death on the way."""
    async with working(url) as connection:
        month = await the_month(connection, first_day(name))
        die_before(statements)
        await drop(connection, month, lambda _: None, without_export=True)


def die_before(number: int) -> None:
    """From now on this process kills itself before a statement that does something, after so many others."""
    left = [number]

    def counted(verb: Any) -> Any:
        async def run(*given: Any, **more: Any) -> Any:
            left[0] -= not given[1].startswith(("BEGIN", "set local"))
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return await verb(*given, **more)

        return run

    for name in _VERBS:
        setattr(asyncpg.Connection, name, counted(getattr(asyncpg.Connection, name)))


def main(url: str, months: Sequence[str]) -> None:
    """Drop each, killed one statement later than the one before."""
    killed = 0
    for number, month in enumerate(months):
        if (child := os.fork()) == 0:
            asyncio.run(drop_month(url, month, number))
            os._exit(0)
        killed += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    print(killed)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
