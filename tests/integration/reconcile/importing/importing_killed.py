"""Takes over a table of jobs in processes that kill themselves, each one statement later than the one before.

`python -m tests.integration.reconcile.importing.importing_killed URL`: for each line on standard input, a number, a
fork of this process imports and dies before that statement; it prints `killed` or `ended` for each.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import asyncpg

from perdure._reconcile.importing.doubts import Doubt
from perdure._reconcile.importing.existing_work import ExistingWork, of_table
from perdure._reconcile.importing.rows import Import
from perdure._store.schema import Connection
from perdure.app import name_of
from tests.apps.bookings import LookupBooking
from tests.integration.retention.killed import die_before


async def adoption(db: Connection, refuse: Any = lambda *_: None) -> Import:
    """As the command makes it, in small batches."""
    sql = await of_table(db, "job", "id", "status", "jsonb_build_object('what', what)", None)
    work = await ExistingWork.check(db, sql, name_of(LookupBooking), ("waiting", "running"))
    doubt = Doubt.of(LookupBooking, ("running",), ())
    return Import(db, LookupBooking, work, doubt, 5, 4, None, refuse, lambda _: None)


async def import_rows(url: str, statements: int) -> None:
    """Take over all, but for a death on the way."""
    db = await asyncpg.connect(url)
    die_before(statements)
    await (await adoption(db)).run()


def main(url: str) -> None:
    """One fork for each number."""
    for line in sys.stdin:
        if (child := os.fork()) == 0:
            asyncio.run(import_rows(url, int(line)))
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print({-signal.SIGKILL: "killed", 0: "ended"}[status], flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
