"""What the bodies of web jobs share, for as long as a worker runs: connections to the app's database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg

from perdure import Settings


@dataclass(frozen=True, slots=True)
class Web:
    """What `attempt.resources` is in a body of a web job.

    Attributes:
        pool: connections to the app's database, apart from perdure's own.
    """

    pool: asyncpg.Pool[asyncpg.Record]


@asynccontextmanager
async def lifespan(config: Settings) -> AsyncIterator[Web]:
    """Open it for one worker."""
    async with asyncpg.create_pool(
        config.database_url,
        min_size=0,
        max_size=config.connections,
        command_timeout=10,
        statement_cache_size=0,  # for PgBouncer
        server_settings={"application_name": "perdure web jobs"},
    ) as pool:
        yield Web(pool)
