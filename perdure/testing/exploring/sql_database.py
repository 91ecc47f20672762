"""The application's database in PostgreSQL: the real functions, the real store, and the ways in which it can fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg

from perdure._store.postgres import PostgresStore
from perdure._wire.writes import Answer, EffectView, FenceOp, Move, Write
from perdure.contracts.keys import Entity
from perdure.errors import DatabaseUnavailable
from perdure.testing.exploring.calls import Gone
from perdure.testing.exploring.database import Row
from perdure.testing.exploring.sql_record import SqlRecord
from perdure.testing.exploring.sql_sessions import Postgres, VirtualSession

if TYPE_CHECKING:
    from perdure.testing.exploring.sql_world import SqlWorld
    from perdure.testing.exploring.workers import Worker

T = TypeVar("T")

TABLES = ("ident", "entity", "effect", "outbox", "rejected", "behind", "finished", "transition", "message", "relay")
"""The tables that a scenario fills."""
_CLEAN = "; ".join(f"delete from perdure.{table}" for table in TABLES)
_FIRST = "select setval('sim.uuids', 1, false), setval(pg_get_serial_sequence('perdure.outbox', 'seq'), 1, false)"
_LONGEST = 2.5


class SqlDatabase:
    """One database for all workers, relays and applications of a world; see the module.

    Args:
        world: the loop, and where findings are reported.
        postgres: sessions with a database that `sql_clock.install` has prepared. All that its tables hold is deleted.
    """

    def __init__(self, world: SqlWorld, postgres: Postgres) -> None:
        self.world = world
        self.sessions: Postgres = postgres
        self.rows: dict[str, Row] = {}
        self.away_until: float = 0.0
        self.loses_replies_until: float = 0.0
        self._locked_until = 0.0
        self._endless: list[asyncio.Future[None]] = []
        self._record = SqlRecord()

    @property
    def store(self) -> SqlDatabase:
        """What is on record, as it was when it was last read."""
        return self

    # -- while the loop stands

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, done while nothing else happens."""
        return self.world.loop.run_until_complete(work)

    async def open(self) -> None:
        """Make it empty."""
        await self.sessions.open()
        async with self.sessions.lent() as session:
            await session.execute(_CLEAN)
            await session.execute(_FIRST)

    async def read(self) -> None:
        """Read what is on record."""
        async with self.sessions.lent() as session:
            self._record = await SqlRecord.read(session)

    def effects(self) -> dict[str, EffectView]:
        """The records of the fence, by key."""
        return self._record.effects

    def snapshot(self, lifecycle: str, entity_id: str) -> Any:
        """The newest snapshot of an entity."""
        return self._record.snapshot(lifecycle, entity_id)

    keeps_moments: bool = False

    def lose_records(self) -> None:
        """Not played: that PostgreSQL is restored is tested with real servers."""
        raise NotImplementedError

    def lose_commits(self, count: int) -> None:
        """Not played either."""
        raise NotImplementedError

    def moves(self, entity: Entity) -> list[Move]:
        """All that the mirror has shown of an entity in its generation."""
        return self._record.moves(entity)

    def version(self, entity: Entity) -> int:
        """Of the newest write that shows a state of an entity."""
        return self._record.version(entity)

    def is_final(self, entity: Entity) -> bool:
        """Whether the mirror shows an end."""
        moves = self.moves(entity)
        return bool(moves) and moves[-1].final

    # -- faults

    @property
    def locked_until(self) -> float:
        """Until when another session holds one of the entities."""
        return self._locked_until

    @locked_until.setter
    def locked_until(self, until: float) -> None:
        if self._locked_until <= self.world.loop.time() < until and self.rows:
            self._locked_until = until
            entity = self.world.random.choice(sorted(self.rows.values(), key=lambda row: row.entity.id)).entity
            self.world.loop.create_task(self._hold(entity, until))

    async def _hold(self, entity: Entity, until: float) -> None:
        async with self.sessions.lent() as session:
            try:
                async with session.transaction():
                    await session.execute(
                        "select from perdure.ident where lifecycle = $1 and id = $2 for update",
                        entity.lifecycle,
                        entity.id,
                    )
                    self.world.cover("locked", "")
                    await asyncio.sleep(until - self.world.loop.time())
            except (asyncpg.PostgresError, asyncpg.InterfaceError):
                return  # another session holds it, or this one is lost

    def close(self) -> None:
        """Close the sessions that somebody still has."""
        self.sessions.take_back()

    # -- what others do with it

    def connection(self, worker: Worker) -> WorkerStore:
        """A store as one worker has it."""
        return WorkerStore(self, worker)

    async def never(self) -> None:
        """Wait without end. It is kept in memory: else it would end when that is tidied up, at any moment."""
        self._endless.append(self.world.loop.create_future())
        await self._endless[-1]

    async def arrives(self) -> None:
        """A statement is sent.

        Raises:
            ConnectionRefusedError: the server is away.
        """
        if self.away_until > self.world.loop.time():
            raise ConnectionRefusedError("the server is away")

    async def answers(self, patience: float) -> None:
        """The reply to a statement is on its way.

        Raises:
            TimeoutError: it was lost.
        """
        if self.loses_replies_until > self.world.loop.time():
            await asyncio.sleep(patience)
            raise TimeoutError("the reply was lost")


class WorkerStore:
    """`Store` for one worker: the real one, over sessions that can fail."""

    def __init__(self, database: SqlDatabase, worker: Worker) -> None:
        self._database, self._worker = database, worker
        self._store = PostgresStore(_Pool(database, worker))  # type: ignore[arg-type]

    async def write(self, write: Write, *, patience: float) -> Answer:
        """See `Store`."""
        try:
            answer = await self._store.write(write, patience=patience)
        except DatabaseUnavailable:
            await self._worker.here()
            raise
        await self._worker.here()
        if write.fence is not None and write.fence.op is not FenceOp.BEGIN:  # it may have left a wake
            self._database.world.relay.nudge()
        return answer


class _Pool:
    """The part of a pool that the store of a worker uses. A killed worker does not use it any more."""

    def __init__(self, database: SqlDatabase, worker: Worker) -> None:
        self._database, self._worker = database, worker

    @asynccontextmanager
    async def acquire(self, *, timeout: float | None = None) -> AsyncIterator[Borrowed]:
        await self._database.arrives()
        async with self._database.sessions.lent() as session:
            yield Borrowed(self._database, self._worker, session)


class Borrowed:
    """A session that a worker has borrowed: the worker may be killed before and after each statement."""

    def __init__(self, database: SqlDatabase, worker: Worker, session: VirtualSession) -> None:
        self._database, self._worker, self._session = database, worker, session

    async def fetch(self, query: str, *args: Any, timeout: float) -> list[Any]:
        """See asyncpg."""
        await self._point("before the commit")
        await self._database.arrives()
        rows = await self._session.fetch(query, *args)
        if self._database.loses_replies_until > self._database.world.loop.time():
            self._database.world.cover("reply lost", "batch")
        await self._database.answers(timeout)
        await self._point("after the commit")
        return rows

    async def _point(self, place: str) -> None:
        try:
            await self._database.world.incidents.reach(self._worker, place)
        except Gone:
            await self._database.never()  # nothing returns to a process that was killed
