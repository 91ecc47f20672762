"""What the tests of the store stand on: stores on a test's own database, and writes in few words."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import asyncpg

from perdure._store.postgres import Database, Pool, PostgresStore
from perdure._store.sql import queries
from perdure._wire.writes import Answer, Fence, FenceOp, Move, Write
from perdure.contracts.outcomes import EffectStatus
from tests.deadline import DEADLINE

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

LIFECYCLE = "booking"
PATIENCE = DEADLINE
"""Seconds that a write of these tests may take before it counts as lost."""


@asynccontextmanager
async def store_at(dsn: str, *, connections: int = 5) -> AsyncIterator[PostgresStore]:
    """A store with connections of its own, as each worker process has it."""
    database = Database(dsn, most=connections)
    store = PostgresStore(await database.open())
    try:
        yield store
    finally:
        await store.close()
        await database.close()


async def declared(db: Connection, lifecycle: str, table: str, key: str, state: str) -> None:
    """Put on record which column of the app's shows the states of a lifecycle."""
    await db.execute(queries("perdure._worker")("declare_column"), lifecycle, table, key, state)


def a_write(
    entity_id: object, version: int, move: Move | None = None, fence: Fence | None = None, **more: Any
) -> Write:
    """A write of one entity."""
    return Write(
        lifecycle=more.pop("lifecycle", LIFECYCLE),
        id=str(entity_id),
        generation=more.pop("generation", 0),
        version=version,
        workflow_id=f"{LIFECYCLE}/{entity_id}",
        move=move,
        fence=fence,
        **more,
    )


def a_move(entity_id: object, version: int, state: str = "doing", *, final: bool = False, **more: Any) -> Write:
    """A write that only moves the mirror."""
    about = {name: more.pop(name) for name in ("why", "attention", "within", "by", "snapshot") if name in more}
    return a_write(entity_id, version, Move(state=state, final=final, **about), **more)


def a_key(entity_id: object, number: int = 0) -> str:
    """Key of an effect of an entity."""
    return f"{LIFECYCLE}/{entity_id}/mail" + (f"~{number}" if number else "")


def a_fence(op: FenceOp, entity_id: object, token: str = "t1", **more: Any) -> Fence:
    """A fence operation; the input's digest is that of the same bytes where it is not given."""
    more.setdefault("digest", "d1" if op is FenceOp.BEGIN else None)
    more.setdefault("in_flight", 20.0 if op is FenceOp.BEGIN else 0.0)
    return Fence(op=op, key=more.pop("key", a_key(entity_id)), effect="mail", token=token, **more)


def a_begin(entity_id: object, version: int, token: str = "t1", *, entering: str | None = None, **more: Any) -> Write:
    """A write that puts an attempt on record, with or without a state to enter."""
    about = {name: more.pop(name) for name in ("generation",) if name in more}
    move = None if entering is None else Move(state=entering)
    return a_write(entity_id, version, move, a_fence(FenceOp.BEGIN, entity_id, token, **more), **about)


def an_outcome(entity_id: object, version: int, status: EffectStatus, token: str = "t1", **more: Any) -> Write:
    """A write that says what became of an attempt."""
    round_ = more.pop("generation", 0)
    return a_write(
        entity_id, version, None, a_fence(FenceOp.OUTCOME, entity_id, token, status=status, **more), generation=round_
    )


async def written(store: PostgresStore, *writes: Write) -> list[Answer]:
    """Write all at once; the answers in the same order."""
    return await asyncio.gather(*(store.write(each, patience=PATIENCE) for each in writes))


class Calls:
    """Counts the database calls of a store, each with its number of writes, and the seconds that it took."""

    def __init__(self, store: PostgresStore) -> None:
        self.sizes: list[int] = []
        self.seconds: list[float] = []
        self._commit = store._commit
        store._group._commit = self._counted

    async def _counted(self, batch: Sequence[str]) -> Sequence[str | None]:
        self.sizes.append(len(batch))
        began = time.monotonic()
        try:
            return await self._commit(batch)
        finally:
            self.seconds.append(time.monotonic() - began)


async def states(db: Connection | Pool, entity_id: object) -> list[str]:
    """Transitions of an entity on record, oldest first."""
    rows = await db.fetch(
        "select state from perdure.transition where lifecycle = $1 and id = $2 order by generation, version, at",
        LIFECYCLE,
        str(entity_id),
    )
    return [row["state"] for row in rows]


async def run_on(dsn: str, statement: str) -> None:
    """Run SQL on a connection of its own."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
