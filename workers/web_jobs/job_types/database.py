"""The shared part of the commands: the database with the tables of web jobs, and the release of held jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from activities.web_jobs import catalogue
from perdure.cli.database import begun, transaction
from perdure.cli.printing import print_note
from perdure.database import Connection
from perdure.errors import SchemaMismatch

_MANY = 2000
"""Number of jobs from which on the progress is printed."""


@asynccontextmanager
async def types(*, reads: bool = False) -> AsyncIterator[Connection]:
    """A transaction in the app's database, which has the tables of web jobs.

    Raises:
        DatabaseUnavailable: no PostgreSQL answers.
        SchemaMismatch: perdure's schema, or the tables, are missing.
        NotPermitted: this role may not do that.
    """
    async with begun(reads=reads, way_out="use the role that owns the schema web_job") as connection:
        if not await catalogue.is_set_up(connection):
            raise SchemaMismatch("the database has no tables of web jobs: run `perdure job-type set-up`")
        yield connection


async def release(names: Iterable[str]) -> int:
    """Notify the held jobs of these types that they may continue. Returns their number.

    It may be stopped at any time, and run again.
    """
    released = 0
    for name in names:
        so_far = 0
        async for so_far in catalogue.release(transaction, name):
            if so_far >= _MANY:
                print_note(f"{so_far} jobs of {name} are released")
        released += so_far
    return released
