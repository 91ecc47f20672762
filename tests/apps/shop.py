"""An app in a process of its own: commits a booking's row with its start, and stands still where it is told to."""

from __future__ import annotations

import asyncio
import sys

import asyncpg

from perdure import Client


async def main(dsn: str, entity_id: str, stand_still: str) -> None:
    """`stand_still` = `started` (all is done but the commit) or `committed`."""
    connection = await asyncpg.connect(dsn)
    async with connection.transaction():
        await connection.execute("insert into booking (id) values ($1)", entity_id)
        await Client().start("lookup", entity_id, {}, connection=connection)
        await connection.fetchval("select perdure.signal('lookup', $1, 'anything')", entity_id)
        await _stand_still("started", stand_still)
    await _stand_still("committed", stand_still)


async def _stand_still(here: str, where: str) -> None:
    if here == where:
        print(here, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
