"""Holds chosen statements inside PostgreSQL, before they commit: so a process can be killed or frozen right there.

A trigger waits for an advisory lock that the test has; whoever waits can be seen in `pg_locks`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg

from tests.deadline import until
from tests.world import WorkerProcess, World

_LOCK = 7
_STAND_STILL = f"""
    create or replace function public.stand_still() returns trigger language plpgsql set lock_timeout = 0 as $$
    begin
        perform pg_advisory_xact_lock_shared({_LOCK});
        return case when tg_op = 'DELETE' then old else new end;
    end $$
"""
_TABLES = f"""
    create function public.stand_still_at_tables() returns event_trigger language plpgsql set lock_timeout = 0 as $$
    begin
        if (select count(*) from pg_tables where schemaname = 'public') >= {{count}} then
            perform pg_advisory_xact_lock_shared({_LOCK});
        end if;
    end $$;
    create event trigger stand_still on ddl_command_start when tag in ('CREATE TABLE')
        execute function public.stand_still_at_tables()
"""
_WAITERS = """
    select count(*) from pg_locks where locktype = 'advisory' and not granted
        and database = (select oid from pg_database where datname = current_database())
"""
_RUNNING = """
    select count(*) from pg_stat_activity where datname = current_database() and state = 'active'
        and query like '%apply_writes%' and pid <> pg_backend_pid()
"""


class Hold:
    """A place in the database where statements stand still until `release`."""

    def __init__(self, lock: asyncpg.Connection[asyncpg.Record]) -> None:
        self._lock = lock

    async def again(self) -> None:
        """Hold them as before."""
        await self._lock.execute(f"select pg_advisory_lock({_LOCK})")

    async def committed_by_the_frozen(self, worker: WorkerProcess, done: Callable[[], Awaitable[bool]]) -> None:
        """Freeze `worker` while a statement of its stands there, and let PostgreSQL commit that, until `done`.

        PostgreSQL itself ends a statement that stands still: then the worker has to send it once more.
        """
        while True:
            await self.reached()
            await worker.freeze()
            await self.release()
            await until(self._nothing_runs, "the end of what the frozen worker had sent")
            if await done():
                return
            await self.again()
            worker.thaw()

    async def is_reached(self) -> bool:
        """Whether a statement stands there."""
        return bool(await self._lock.fetchval(_WAITERS))

    async def reached(self) -> None:
        """Wait until a statement stands there."""
        await until(self.is_reached, "a statement that is held")

    async def left(self) -> None:
        """Wait until none stands there any more."""

        async def nobody() -> bool:
            return not await self.is_reached()

        await until(nobody, "the end of the statements that were held")

    async def release(self) -> None:
        """Let them go on, and all that come."""
        await self._lock.fetchval("select pg_advisory_unlock_all()")

    async def cut_off(self) -> None:
        """End the sessions that stand there, as PostgreSQL does once it notices that their client is gone."""
        await self._lock.execute(
            "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and not granted"
            " and database = (select oid from pg_database where datname = current_database())"
        )
        await self.left()

    async def _nothing_runs(self) -> bool:
        return not await self._lock.fetchval(_RUNNING)


@asynccontextmanager
async def hold(world: World, event: str, when: str = "true") -> AsyncIterator[Hold]:
    """Hold statements in the world's database.

    Args:
        event: of a trigger, as `update on perdure.effect`.
        when: condition on `new` and `old`.
    """
    trigger = f"create trigger stand_still before {event} for each row when ({when}) execute function stand_still()"
    async with _holding(world.dsn, _STAND_STILL, trigger) as made:
        yield made


@asynccontextmanager
async def hold_tables(dsn: str, count: int) -> AsyncIterator[Hold]:
    """Hold the statement that makes another table, once there are so many. Whoever connects has to be a superuser."""
    async with _holding(dsn, _TABLES.format(count=count)) as made:
        yield made


@asynccontextmanager
async def _holding(dsn: str, *triggers: str) -> AsyncIterator[Hold]:
    lock = await asyncpg.connect(dsn)
    try:
        await lock.execute(f"select pg_advisory_lock({_LOCK})")
        for statement in triggers:
            await lock.execute(statement)
        yield Hold(lock)
    finally:
        await lock.close()
