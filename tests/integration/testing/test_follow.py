"""The test kit for followers: the documented one passes, and those that keep their position too early are found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import asyncpg
import pytest

from perdure.errors import InvalidPosition
from perdure.servers.postgres import PostgresServer
from perdure.testing import Feed, FollowerFailed, follow
from perdure.testing.following import Effect

PAGE = Path(__file__).parents[3] / "docs" / "feed.md"


@pytest.fixture
async def template(postgres: PostgresServer, database: str) -> str:
    """URL of a migrated database with a table for followers."""
    db = await asyncpg.connect(postgres.dsn(database))
    await db.execute(
        "create table kept (position text); insert into kept values (null); "
        "create table seen (number bigint generated always as identity, lifecycle text, id text, version int)"
    )
    await db.close()
    return postgres.dsn(database)


class Inside:
    """It keeps its position in one transaction with what it handles."""

    async def run(self, feed: Feed) -> None:
        db = await asyncpg.connect(feed.database_url)
        try:
            async for event in feed(await db.fetchval("select position from kept")):
                async with db.transaction():
                    row = (event.lifecycle, event.id, event.version)
                    await db.execute("insert into seen (lifecycle, id, version) values ($1, $2, $3)", *row)
                    await db.execute("update kept set position = $1", event.position)
        finally:
            await db.close()

    async def effects(self, feed: Feed) -> Sequence[Effect]:
        db = await asyncpg.connect(feed.database_url)
        rows = await db.fetch("select lifecycle, id, version from seen order by number")
        await db.close()
        return [(row["lifecycle"], row["id"], row["version"]) for row in rows]


class Outside:
    """It keeps its position in memory, after it has handled the event, and handles what comes again."""

    def __init__(self) -> None:
        self.position: str | None = None
        self.seen: list[Effect] = []

    async def run(self, feed: Feed) -> None:
        async for event in feed(self.position):
            self.seen.append((event.lifecycle, event.id, event.version))
            self.position = event.position

    async def effects(self, feed: Feed) -> Sequence[Effect]:
        return self.seen


class TooEarly(Outside):
    """It keeps its position before it handles the event."""

    async def run(self, feed: Feed) -> None:
        async for event in feed(self.position):
            self.position = event.position
            self.seen.append((event.lifecycle, event.id, event.version))


class FromNow(Inside):
    """Where its position is refused it goes on from the end, and tells nobody."""

    async def run(self, feed: Feed) -> None:
        try:
            await super().run(feed)
        except InvalidPosition:
            db = await asyncpg.connect(feed.database_url)
            await db.execute("update kept set position = perdure.feed_position()")
            await db.close()


async def test_the_documented_follower_and_one_inside_the_database_pass(template: str) -> None:
    [block] = [
        block for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S) if "Cache" in block
    ]
    names: dict[str, object] = {}
    exec(block, names)
    cache = names["Cache"]
    assert callable(cache)
    assert await follow(cache, template) > 20
    assert await follow(Inside, template) > 20


@pytest.mark.parametrize(
    ("follower", "said"),
    [(Outside, "took effect twice"), (TooEarly, "was missed"), (FromNow, "put back to an earlier time: .* was missed")],
)
async def test_a_follower_that_is_wrong_is_found(template: str, follower: type[Outside | Inside], said: str) -> None:
    with pytest.raises(FollowerFailed, match=said):
        await follow(follower, template)
