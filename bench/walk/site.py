"""Servers, a worker and a console, with doubts; and the judge of what became of them."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import temporalio.client

from bench.polling import eventually
from bench.walk.app import KINDS, OtherSide, app
from perdure import PerdurePlugin, Settings
from perdure._store import schema
from perdure._worker.worker import new_worker
from perdure.console import InsecureLocal, console
from perdure.console.serving import address, listen, serve
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer

_START = "select perdure.start($1, n::text, jsonb_build_object('amount', n)) from generate_series(1, $2::int) n"
_PARKED = "select count(*) >= $1::int from perdure.entity where attention like '% is in doubt: %'"
_WRONG = """
    select count(*) from perdure.ident i
    left join perdure.effect f on f.lifecycle = i.lifecycle and f.id = i.id
    where i.final is distinct from 'done' or f.status is distinct from 'done' or (i.lifecycle = 'order'
        and (f.receipt->>'amount' is distinct from i.id or f.receipt->>'charge' is distinct from 'ch_' || left(encode(
            sha256(convert_to(f.key, 'UTF8')), 'hex'), 12)))
"""


@asynccontextmanager
async def parked(doubts: int) -> AsyncIterator[tuple[asyncpg.Connection[asyncpg.Record], str]]:
    """A connection to the database, and the address of the console, when so many of each kind are in doubt."""
    with PostgresServer() as postgres, TemporalServer() as temporal, tempfile.TemporaryDirectory() as folder:
        config = Settings(database_url=postgres.dsn("postgres"), relay_poll_interval=0.1, reconciliation_every=0.0)
        os.environ["TEMPORAL_ADDRESS"] = temporal.address
        db = await asyncpg.connect(config.database_url)
        await schema.migrate(db)
        plugin = PerdurePlugin(app, config)
        client = await temporalio.client.Client.connect(temporal.address, plugins=[plugin])
        stop, listening = asyncio.Event(), listen("127.0.0.1", 0)
        made = console(InsecureLocal(), app=app, config=config, folder=Path(folder))
        async with new_worker(client, config):
            running = asyncio.create_task(serve(made, listening, stop.wait()))
            try:
                for lifecycle in KINDS:
                    await db.execute(_START, lifecycle, doubts)
                await eventually(
                    lambda: db.fetchval(_PARKED, doubts * len(KINDS)), "all wait", patience=3600, every=0.5
                )
                yield db, address(listening)
            finally:
                stop.set()
                await running
                await db.close()


async def judged(db: asyncpg.Connection[asyncpg.Record]) -> list[str]:
    """What is wrong at the other sides, or on record."""
    done = [(name, token, times) for name, side in KINDS.items() for token, times in side.done.items()]
    wrong = [f"{name}: {token} {times} times" for name, token, times in done if times != 1]
    if len(done) != await db.fetchval("select count(*) from perdure.ident"):
        wrong.append(f"{len(done)} were done in all")
    if left := await db.fetchval(_WRONG):
        wrong.append(f"{left} are not done on record, or with another receipt")
    return wrong


def lines(side: OtherSide) -> list[str]:
    """The other side's statement, with what it did for others."""
    return [*side.statement[::2], "another-shop-17", *side.statement[1::2], "another-shop-18"]
