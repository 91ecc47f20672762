"""Writers: transactions that stay open beside each other, with savepoints, rollbacks and two-phase commits."""

from __future__ import annotations

import json
import random
from typing import TypeAlias

import asyncpg

from tests.following.model import Event, Truth

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


class Writer:
    """One session and its open transaction."""

    def __init__(self, db: Connection, truth: Truth, held: set[str], luck: random.Random) -> None:
        """`held`: entities that some open transaction has written, which nobody else waits for here."""
        self._db, self._truth, self._held, self._luck = db, truth, held, luck
        self._events: list[Event] | None = None
        self._savepoint: int | None = None

    async def step(self) -> str:
        """Do one thing, and return its name."""
        if self._events is None:
            if self._luck.random() < 0.25:
                return await self._finish_prepared()
            await self._db.execute("begin")
            if self._luck.random() < 0.3:
                await self._db.execute("set local synchronous_commit = off; select pg_current_xact_id()")
            self._events = []
            return "begin"
        act = self._luck.choices(
            [self._write, self._set_savepoint, self._roll_back_to, self._commit, self._roll_back, self._prepare],
            [8, 1, 2, 5, 3, 1],
        )[0]
        return f"{act.__name__.strip('_')} {await act(self._events) or ''}"

    async def _write(self, events: list[Event]) -> str:
        mine = {entity: version for entity, version, _ in events}
        open_ones = [e for e in self._truth.versions if e.startswith("e") and (e not in self._held or e in mine)]
        if self._luck.random() < 0.3 or not (open_ones or mine):
            entity, version = f"e{self._luck.getrandbits(40):x}", 0
            await self._db.execute("select perdure.start('booking', $1, '{}')", entity)
        else:
            entity = self._luck.choice(sorted({*open_ones, *mine}))
            version = mine.get(entity, self._truth.versions.get(entity, 0)) + 1
            move = {"lifecycle": "booking", "id": entity, "generation": 0, "version": version, "workflow_id": "w"}
            await self._db.fetch(
                "select perdure.apply_writes($1)", json.dumps([move | {"move": {"state": "s", "final": False}}])
            )
        self._held.add(entity)
        at = await self._db.fetchval("select max(at) from perdure.transition where id = $1", entity)
        events.append((entity, version, at.isoformat()))
        return f"{entity} {version}"

    async def _set_savepoint(self, events: list[Event]) -> None:
        await self._db.execute("savepoint here")
        self._savepoint = len(events)

    async def _roll_back_to(self, events: list[Event]) -> None:
        if self._savepoint is not None:
            await self._db.execute("rollback to savepoint here")
            self._release(events[self._savepoint :], {entity for entity, *_ in events[: self._savepoint]})
            del events[self._savepoint :]

    async def _commit(self, events: list[Event]) -> None:
        await self._db.execute("commit")
        self._truth.commit(events)
        self._release(events)
        self._over()

    async def _roll_back(self, events: list[Event]) -> None:
        await self._db.execute("rollback")
        self._release(events)
        self._over()

    async def _prepare(self, events: list[Event]) -> None:
        name = f"p{self._luck.getrandbits(40):x}"
        await self._db.execute(f"prepare transaction '{name}'")
        self._truth.prepared[name] = events
        self._over()

    async def _finish_prepared(self) -> str:
        if not self._truth.prepared:
            return "nothing"
        name = self._luck.choice(sorted(self._truth.prepared))
        # The same end wherever that transaction is found again, as a coordinator decides it: once.
        commits = random.Random(name).random() < 0.7
        await finish(self._db, self._truth, self._held, name, commit=commits)
        return f"{'commit' if commits else 'rollback'} prepared {name}"

    def _over(self) -> None:
        self._events, self._savepoint = None, None

    def _release(self, events: list[Event], keep: set[str] = frozenset()) -> None:  # type: ignore[assignment]
        for entity, *_ in events:
            if entity not in keep:
                self._held.discard(entity)


async def finish(db: Connection, truth: Truth, held: set[str], name: str, *, commit: bool) -> None:
    """End a prepared transaction."""
    await db.execute(f"{'commit' if commit else 'rollback'} prepared '{name}'")
    events = truth.prepared.pop(name)
    if commit:
        truth.commit(events)
    for entity, *_ in events:
        held.discard(entity)
