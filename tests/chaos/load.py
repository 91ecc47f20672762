"""The app that starts lifecycles in the transactions of its rows, whatever state its database is in."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import asyncpg
from pydantic import BaseModel

from activities.comments.contracts import Comment
from perdure import Client
from tests.apps.bookings import Count
from tests.apps.contracts import Booking, March
from tests.chaos.generated import program
from tests.chaos.plan import GENERATED, Plan, Start
from tests.chaos.retrying import insist

STEPS = 30
"""Steps of a march."""
PATIENCE = 5.0
"""Seconds that the app waits for its database before it tries again."""


class _RolledBack(Exception):
    """What the app raises to take a transaction back."""


class Load:
    """Starts what the plan says, when it says so.

    Args:
        dsn: the app's database.
        client: perdure's; it only lends its `start`.

    Attributes:
        committed: when each start was known to be committed, by id; the clock is `time.time`.
    """

    def __init__(self, dsn: str, client: Client, plan: Plan) -> None:
        self.committed: dict[str, float] = {}
        self._dsn = dsn
        self._client = client
        self._plan = plan

    async def run(self, began: float) -> None:
        """Start all; returns when the last one is committed.

        Args:
            began: when the plan began, on the event loop's clock.
        """
        loop = asyncio.get_running_loop()
        pool = await asyncpg.create_pool(self._dsn, min_size=0, max_size=8, timeout=PATIENCE, command_timeout=PATIENCE)
        try:
            async with asyncio.TaskGroup() as starting:
                for start in self._plan.starts:
                    await asyncio.sleep(began + start.at - loop.time())
                    starting.create_task(self._start(pool, start))
        finally:
            pool.terminate()

    async def _start(self, pool: Any, start: Start) -> None:
        """Again until the database has answered: a start that was committed unheard is there already."""

        async def once() -> None:
            async with asyncio.timeout(PATIENCE), pool.acquire() as connection:
                try:
                    async with connection.transaction():
                        await self._in_transaction(connection, start)
                        if not start.kept:
                            raise _RolledBack
                except _RolledBack:
                    return
            self.committed[start.id] = time.time()

        await insist(once)

    async def _in_transaction(self, connection: Any, start: Start) -> None:
        if start.lifecycle == "comment-notification":
            await connection.execute(
                "insert into comment (id, recipient) values ($1, $2) on conflict do nothing",
                int(start.id),
                f"reader-{start.id}@example.org",
            )
        else:
            await connection.execute("insert into booking (id) values ($1) on conflict do nothing", start.id)
        what = given(start, self._plan.seed)
        await self._client.start(start.lifecycle, start.id, what, connection=connection)


def given(start: Start, seed: int) -> BaseModel:
    """The input of a lifecycle, in the plan of a seed."""
    match start.lifecycle:
        case "comment-notification":
            return Comment(
                id=int(start.id), post_id=1, author="ann", body="hello", recipient=f"reader-{start.id}@example.org"
            )
        case "march":
            return March(steps=STEPS)
        case "counter":
            return Count()
        case _ if start.lifecycle == GENERATED:
            return program(seed, start.id)
        case _:
            return Booking(what=start.id, seconds=start.seconds)
