"""What the pages share: the lifecycle whose roles count, and the tables that they read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from activities.web_jobs import catalogue
from perdure.console import View
from perdure.database import Connection
from perdure.errors import SchemaMismatch
from workers.queries import queries

LIFECYCLE = "web-job"
query = queries("workers.web_jobs.console")


@asynccontextmanager
async def reading(view: View) -> AsyncIterator[Connection]:
    """A transaction that only reads.

    Raises:
        SchemaMismatch: the tables are missing.
    """
    async with view.reading() as connection:
        if not await catalogue.is_set_up(connection):
            raise SchemaMismatch("the database has no tables of web jobs: run `perdure job-type set-up`")
        yield connection
