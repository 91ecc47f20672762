"""What the commands share: the database with the tables of web jobs, and telling jobs that nothing holds them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import asyncpg

from activities.web_jobs import catalogue
from perdure.cli.database import transaction
from perdure.cli.printing import print_note
from perdure.database import Connection
from perdure.errors import NotPermitted, SchemaMismatch

_MANY = 2000
"""From so many on it says how far it is."""


@asynccontextmanager
async def types(*, reads: bool = False) -> AsyncIterator[Connection]:
    """A transaction in the app's database, where the tables of web jobs are.

    Raises:
        DatabaseUnavailable: no PostgreSQL answers.
        SchemaMismatch: perdure's schema, or the tables, are missing.
        NotPermitted: this role may not do that.
    """
    try:
        async with transaction(reads=reads) as connection:
            if not await catalogue.is_set_up(connection):
                raise SchemaMismatch("the database has no tables of web jobs: run `perdure job-type set-up`")
            yield connection
    except asyncpg.InsufficientPrivilegeError as error:
        raise NotPermitted(f"{error}: use the role that owns the schema web_job") from error


async def let_go(names: Iterable[str]) -> int:
    """Tell the jobs that these types held that they hold them no longer. How many were told.

    It may be stopped at any time, and run again.
    """
    told = 0
    for name in names:
        so_far = 0
        async for so_far in catalogue.let_go(transaction, name):
            if so_far >= _MANY:
                print_note(f"{so_far} jobs of {name} are let go")
        told += so_far
    return told
