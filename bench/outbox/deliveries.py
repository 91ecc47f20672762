"""How fast and how soon the relay delivers: beside the plain client, with a backlog, and when nothing else happens."""

from __future__ import annotations

import asyncio
import random
import secrets
import time

import temporalio.client

from bench.outbox.life import Given, Nothing, app
from bench.outbox.marks import began
from bench.outbox.rig import Rig
from perdure import PerdurePlugin
from perdure._services.relay import BATCH, Relay
from perdure._store.postgres import Database

_COMMIT = "select count(perdure.start('nothing', $1 || n, '{\"number\": 1}')) from generate_series(1, $2) n"
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


async def with_backlog(here: Rig, rounds: int, batches: int) -> list[float]:
    """Rows per second that one relay claims and delivers of what waits, round by round; nobody runs them."""
    database, found = Database(here.config.database_url), []
    client = await temporalio.client.Client.connect(here.temporal.address, plugins=[PerdurePlugin(app, here.config)])
    relay = Relay(await database.open(), client, app, here.config)
    await relay.once()  # what is prepared once
    for _ in range(rounds):
        before, since = await here.app.fetchval(_WAITING), time.monotonic()
        for _ in range(batches):
            await relay.once()
        taken = time.monotonic() - since
        found.append((before - await here.app.fetchval(_WAITING)) / taken)
    await database.close()
    return found


async def until_begun(here: Rig, count: int, pause: float) -> list[float]:
    """Milliseconds from the commit of a start to its first workflow task, while nothing else happens."""
    await here.forget()
    began.clear()
    taken, prefix = [], secrets.token_hex(4)
    async with here.worker():
        for number in range(-3, count):  # the first few warm up
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            name = f"{prefix}{number}"
            await here.app.execute("select perdure.start('nothing', $1, '{\"number\": 1}')", name)
            committed = time.monotonic()
            while name not in began:  # noqa: ASYNC110 - it is a thread that tells
                await asyncio.sleep(0.001)
            if number >= 0:
                taken.append(1000 * (began[name] - committed))
        await here.over(count)
    return taken
