"""The order in Oban for Python. `python -m bench.peers.with_oban` runs it; it needs Python 3.12."""

from __future__ import annotations

import asyncio
import functools

import oban
from psycopg_pool import AsyncConnectionPool

from bench.peers import shop


@oban.worker(queue="default", max_attempts=10)
class ChargeOrder:
    """The job."""

    async def process(self, job: oban.Job) -> None:
        """Do one attempt."""
        await asyncio.to_thread(charge, job.args["order"])


def charge(order: int) -> None:
    """Charge the card, and write the state. The key is the same in each attempt."""
    found = shop.find(order) if shop.SIDE == "look-up" else None
    if found is None:
        shop.charge(order, f"order-{order}")
    shop.at("before-write")
    with shop.transaction() as connection:
        connection.execute("update orders set state = 'charged' where id = %s", [order])


@functools.cache
def connections() -> asyncio.Task[AsyncConnectionPool]:
    """The application's pool, which Oban uses too."""
    return asyncio.create_task(connect())


async def connect() -> AsyncConnectionPool:
    """Open it."""
    pool = await oban.Oban.create_pool(shop.DSN)
    oban.Oban(pool=pool)
    return pool


async def take(number: int) -> None:
    """Commit the order with its job."""
    pool = await connections()
    async with pool.connection() as connection:
        await connection.execute("insert into orders (id) values (%s)", [number])
        order = ChargeOrder.new({"order": number})  # type: ignore[attr-defined]  # the decorator adds it
        await oban.Oban.get_instance().enqueue(order, conn=connection)
    await asyncio.to_thread(shop.at, "after-commit")


async def main() -> None:
    """Work."""
    pool = await oban.Oban.create_pool(shop.DSN)
    async with oban.Oban(pool=pool, queues={"default": 20}, lifeline={"rescue_after": 30.0}):  # 300 s by default
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
