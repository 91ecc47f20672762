"""How many bytes `perdure.ident` keeps for ever: a million rows, with ids as apps have them.

Run it as `python -m bench.ident [--rows 1000000]`. Each row is written as it is in life: inserted, then moved twice.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

import asyncpg
import typer
from rich.console import Console
from rich.table import Table

from perdure._store import schema
from perdure.servers.postgres import PostgresServer

_IDS = {
    "a number, 1 to 7 digits": "n::text",
    "a UUID": "md5(n::text)::uuid::text",
    "a tenant and a UUID, 50 bytes": "'tenant-' || lpad((n % 5000)::text, 6, '0') || '/' || md5(n::text)::uuid::text",
}
_BATCH = 10_000
_BEGIN = """
    insert into perdure.ident (lifecycle, id, version)
        select 'comment-notification', {id}, 1750000000000000 + n from generate_series($1::bigint, $2) n
"""
_MOVE = """
    update perdure.ident set version = version + 1, final = case when $3 then 'sent' end
        where lifecycle = 'comment-notification' and id in (select {id} from generate_series($1::bigint, $2) n)
"""
_SIZES = "select pg_relation_size('perdure.ident'), pg_indexes_size('perdure.ident')"


def main(rows: Annotated[int, typer.Option(help="How many entities.")] = 1_000_000) -> None:
    """Measure, and print the table."""
    table = Table("id", "MB of rows", "MB of index", "MB for a million entities", title="perdure.ident")
    with PostgresServer() as server:
        for name, expression in _IDS.items():
            heap, index = asyncio.run(_fill(server, expression, rows))
            each = (heap + index) / rows
            table.add_row(name, f"{heap / 1e6:.0f}", f"{index / 1e6:.0f}", f"{each:.0f}")
    Console().print(table)


async def _fill(server: PostgresServer, expression: str, rows: int) -> tuple[int, int]:
    """Bytes of the table and of its index, as vacuum finds them in life."""
    connection = await asyncpg.connect(server.dsn())
    await connection.execute("drop schema if exists perdure cascade")
    await schema.migrate(connection)
    for first in range(0, rows, _BATCH):
        span = (first, first + _BATCH - 1)
        await connection.execute(_BEGIN.format(id=expression), *span)
        for is_final in (False, True):
            await connection.execute(_MOVE.format(id=expression), *span, is_final)
        if first % (10 * _BATCH) == 0:
            await connection.execute("vacuum perdure.ident")
    sizes = await connection.fetchrow(_SIZES)
    await connection.close()
    assert sizes is not None
    return sizes[0], sizes[1]


if __name__ == "__main__":
    typer.run(main)
