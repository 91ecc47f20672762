"""How fast and how soon the relay delivers: beside the plain client, with a backlog, and when nothing else happens."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import asyncpg
import temporalio.client

from bench.cost.rig import cpu_of, with_children
from bench.outbox.life import Given, Nothing, app
from bench.outbox.marks import began
from bench.outbox.rig import Rig
from perdure import PerdurePlugin
from perdure._services.pace import BATCH
from perdure._services.relay import Relay
from perdure._store.postgres import Database

_COMMIT = "select count(perdure.start('nothing', $1 || n, '{\"number\": 1}')) from generate_series(1, $2) n"
_TABLE = "create table if not exists comment (id bigint primary key generated always as identity, body text)"
_ROW = "insert into comment (body) values (repeat('Well said. ', 10)) returning id"
_WAITING = "select count(*) from perdure.outbox"
_FILL = """
    with i as (
        insert into perdure.ident (lifecycle, id) select 'nothing', $1 || n from generate_series(1, $2) n returning id
    ), e as (
        insert into perdure.entity (lifecycle, id, generation, state, input)
            select 'nothing', id, 0, 'pending', '{"number": 1}' from i
    )
    insert into perdure.outbox (lifecycle, id, generation, kind) select 'nothing', id, 0, 'start' from i
"""


async def by_relay(here: Rig, runs: int) -> float:
    """Runs per second to their end: the app commits them all, the relay starts them."""
    await here.forget()
    async with here.worker():
        since = time.monotonic()
        await here.app.execute(_COMMIT, secrets.token_hex(4), runs)
        await here.over(runs)
        return runs / (time.monotonic() - since)


async def by_client(here: Rig, runs: int) -> float:
    """The same, started by Temporal's own client, as many at once as the relay starts."""
    await here.forget()
    async with here.worker(relay=False) as client:
        room, prefix = asyncio.Semaphore(BATCH), secrets.token_hex(4)

        async def start(number: int) -> None:
            async with room:
                name = f"nothing/{prefix}{number}"
                await client.start_workflow(Nothing.run, Given(number=1), id=name, task_queue=here.config.queue)

        since = time.monotonic()
        await asyncio.gather(*(start(number) for number in range(runs)))
        await here.over(runs)
        return runs / (time.monotonic() - since)


async def fill(here: Rig, rows: int) -> None:
    """Let so many starts wait for delivery, and none else."""
    await here.forget()
    await here.app.execute(_FILL, secrets.token_hex(4), rows)
    await here.app.execute("analyze perdure.outbox, perdure.ident, perdure.entity")


@dataclass(frozen=True, slots=True)
class Delivered:
    """Rows per second, and the CPU seconds that 1,000 of them took of each process."""

    per_s: float
    postgres: float
    temporal: float
    process: float


async def with_backlog(here: Rig, rounds: int, batches: int) -> list[Delivered]:
    """What one relay claims and delivers of what waits, round by round; nobody runs it."""
    database, found = Database(here.config.database_url), []
    client = await temporalio.client.Client.connect(here.temporal.address, plugins=[PerdurePlugin(app, here.config)])
    relay = Relay(await database.open(), client, app, here.config)
    await relay.once()  # what is prepared once

    async def deliver() -> int:
        before = int(await here.app.fetchval(_WAITING, timeout=600))
        for _ in range(batches):
            await relay.once()
        return before - int(await here.app.fetchval(_WAITING, timeout=600))

    for _ in range(rounds):
        found.append(await _measured(here, deliver))
    await database.close()
    return found


async def by_client_alone(here: Rig, rounds: int, runs: int) -> list[Delivered]:
    """The same by a plain client, which commits a row before each start; as many at once as the relay starts."""
    await here.app.execute(_TABLE)
    client, room = await temporalio.client.Client.connect(here.temporal.address), asyncio.Semaphore(BATCH)
    async with asyncpg.create_pool(here.config.database_url, min_size=10, max_size=10) as pool:

        async def one() -> None:
            async with room:
                name = f"plain/{await pool.fetchval(_ROW)}"
                await client.start_workflow("nothing", {"number": 1}, id=name, task_queue="nobody")

        async def start() -> int:
            await asyncio.gather(*(one() for _ in range(runs)))
            return runs

        return [await _measured(here, start) for _ in range(rounds)]


async def _measured(here: Rig, work: Callable[[], Awaitable[int]]) -> Delivered:
    def cpu() -> list[float]:
        return [with_children(here.postgres.pid), cpu_of(here.temporal.pid), time.process_time()]

    before, since = cpu(), time.monotonic()
    count = await work()
    taken, per_1000 = time.monotonic() - since, 1000 / count
    return Delivered(count / taken, *((now - then) * per_1000 for then, now in zip(before, cpu(), strict=True)))


async def until_begun(here: Rig, count: int, pause: float) -> list[float]:
    """Milliseconds from the moment at which the app sends the commit of a start to its first workflow task, while
    nothing else happens. The relay may be faster than the answer to the commit."""
    await here.forget()
    began.clear()
    taken, prefix = [], secrets.token_hex(4)
    async with here.worker():
        for number in range(-3, count):  # the first few warm up
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            name = f"{prefix}{number}"
            async with here.app.transaction():
                await here.app.execute("select perdure.start('nothing', $1, '{\"number\": 1}')", name)
                committed = time.monotonic()
            while name not in began:  # noqa: ASYNC110 - a thread sets it
                await asyncio.sleep(0.001)
            if number >= 0:
                taken.append(1000 * (began[name] - committed))
        await here.over(count)
    return taken
