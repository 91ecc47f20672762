"""Followers that keep their position in the database, in one transaction with what they handle, or outside of it."""

from __future__ import annotations

import random
from typing import TypeAlias

import asyncpg

from tests.following.model import Account, Broken, Event, Truth

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
FEED = "select * from perdure.feed($1, $2)"
TABLES = """
    create table handled (name text, number bigint generated always as identity, id text, version bigint, word text);
    create table kept (name text primary key, position text);
"""


class Follower:
    """What both have in common: they begin again where a position is refused, and complain where it should hold.

    Args:
        luck: decides how many events it reads and handles.
    """

    any_refusal = False
    """Whether a refusal is right even where nothing was lost."""

    def __init__(self, name: str, luck: random.Random) -> None:
        self.name, self.luck = name, luck
        self.account = Account()
        self.refusals: list[str] = []

    async def step(self, db: Connection, truth: Truth) -> int:
        """Read, handle and keep the position of some events; return how many."""
        raise NotImplementedError

    async def drain(self, db: Connection, truth: Truth) -> None:
        """Read all that is left, and be judged."""
        while await self.step(db, truth):
            pass
        self.account.judge(truth, self.name, drained=True)

    async def _page(self, db: Connection, after: str | None, truth: Truth) -> list[asyncpg.Record]:
        return await db.fetch(FEED, after, self.luck.choice([1, 2, 5, 100]))

    def refused(self, error: asyncpg.PostgresError, truth: Truth) -> None:
        """Make sure that it may be refused.

        Raises:
            Broken: a false alarm.
        """
        said = f"{error} {error.hint}"
        self.refusals.append(said)
        if self.any_refusal:
            return
        unread = truth.gone - self.account.excused - set(self.account.handled)
        if "was dropped" in said and not unread:
            raise Broken(f"{self.name} is refused though it has read all that was dropped: {said}")
        if "was dropped" not in said and self.account.server == truth.server:
            raise Broken(f"{self.name} is refused though nothing was lost: {said}")

    def _begins(self, after: str | None, truth: Truth) -> None:
        """Without a position it begins with the oldest on record, and is owed nothing that has gone. Nor can it be told
        that what it handled before is not on record in a database that was restored since."""
        if after is None and self.account.server != truth.server:
            self.account = Account(server=truth.server)
        if after is None:
            self.account.excused = set(truth.gone)

    def _keeps(self, truth: Truth) -> None:
        self.account.server = truth.server


class Outside(Follower):
    """Its position and what it has handled are elsewhere: neither is rolled back with the database."""

    def __init__(self, name: str, luck: random.Random) -> None:
        super().__init__(name, luck)
        self.position: str | None = None

    async def step(self, db: Connection, truth: Truth) -> int:
        self._begins(self.position, truth)
        try:
            page = await self._page(db, self.position, truth)
        except asyncpg.PostgresError as error:
            if error.sqlstate not in ("55000", "22023"):
                raise
            self.refused(error, truth)
            self.position, self.account = None, Account(excused=set(truth.gone), server=truth.server)
            return 1
        handled = self.luck.randint(1, len(page)) if page else 0
        kept = self.luck.randint(0, handled) if self.luck.random() < 0.2 else handled
        for row in page[:handled]:
            if (event := event_of(row)) not in self.account.handled:  # as documented: by what stays the same
                self.account.handled.append(event)
        if kept:
            self.position = page[kept - 1]["position"]
            self._keeps(truth)
        self.account.judge(truth, self.name, drained=False)
        return len(page)


class FromNow(Outside):
    """As it, but it begins at the end of the feed."""

    async def step(self, db: Connection, truth: Truth) -> int:
        if self.position is None:
            self.position = await db.fetchval("select perdure.feed_position()")
            self.account = Account(excused=truth.events | truth.gone, server=truth.server)
            self._keeps(truth)
        return await super().step(db, truth)


class Inside(Follower):
    """Its position is a row, and so is what it has handled: a restore puts both back."""

    async def step(self, db: Connection, truth: Truth) -> int:
        commits = self.luck.random() < 0.8
        transaction = db.transaction()
        await transaction.start()
        try:
            after = await db.fetchval("select position from kept where name = $1 for update", self.name)
            self._begins(after, truth)
            page = await self._page(db, after, truth)
            await db.executemany(
                "insert into handled (name, id, version, word) values ($1, $2, $3, $4)",
                [(self.name, *event_of(row)) for row in page],
            )
            if page:
                await db.execute("update kept set position = $2 where name = $1", self.name, page[-1]["position"])
        except asyncpg.PostgresError as error:
            await transaction.rollback()
            if error.sqlstate not in ("55000", "22023"):
                raise
            await self._read(db)
            self.refused(error, truth)
            await db.execute("update kept set position = null where name = $1", self.name)
            await db.execute("delete from handled where name = $1", self.name)
            self.account = Account(excused=set(truth.gone), server=truth.server)
            return 1
        await (transaction.commit if commits else transaction.rollback)()
        await self._read(db)
        if page and commits:
            self._keeps(truth)
        self.account.judge(truth, self.name, drained=False)
        return len(page)

    async def _read(self, db: Connection) -> None:
        rows = await db.fetch("select id, version, word from handled where name = $1 order by number", self.name)
        self.account.handled = [(row["id"], row["version"], row["word"]) for row in rows]


def event_of(row: asyncpg.Record) -> Event:
    """What tells it from all others."""
    return row["id"], row["version"], row["at"].isoformat()
