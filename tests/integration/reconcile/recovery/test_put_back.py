"""A Temporal that was put back to an earlier point lacks what its workflows have received since."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.apps.lasting import KeptSale, Sale, app
from tests.deadline import in_time
from tests.world import World

HEARD = "select id, snapshot->>'words' as words from perdure.finished"


@pytest.fixture
async def world(postgres: PostgresServer, database: str, tmp_path: Path) -> AsyncIterator[World]:
    """A world of sales, whose Temporal keeps its workflows in files."""
    (tmp_path / "temporal").mkdir()
    with TemporalServer(db_file=tmp_path / "temporal" / "db") as temporal:
        async with World(postgres, temporal, database, tmp_path).made(app) as made:
            yield made


async def test_put_back_each_open_lifecycle_goes_on_from_its_record_with_all_its_messages(world: World) -> None:
    files, kept = world.folder / "temporal", world.folder / "kept"
    async with world.worker(app):
        for name in ("a", "b"):
            await world.client.start(KeptSale, name, Sale(words=3))
        await say(world, "a", 1)
    world.temporal.stop()
    shutil.copytree(files, kept)
    world.temporal.start()
    async with world.worker(app):
        await say(world, "a", 2)
        await world.client.start(KeptSale, "later", Sale(words=1))
        await world.asked("sale", "later")
        for _ in range(2):  # which the Temporal of before does not know
            await exchange_mark(world)
    world.temporal.stop()
    shutil.rmtree(files)
    shutil.copytree(kept, files)
    world.temporal.start()
    await world.mark_grows_old()

    command = ("recover", "--put-back", "--yes", "--by", "ann", "--note", "last night's backup")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "perdure.cli", *command), env=world.environment(), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await in_time(process.communicate())
    assert "3 open: 0 run, 3 start again from their record, " in said.decode()
    assert "2 open workflows were terminated" in said.decode()

    async with world.worker(app):
        for name, words in (("a", (3,)), ("b", (1, 2, 3)), ("later", (1,))):
            for word in words:
                await say(world, name, word)
            assert await world.ended("sale", name) == "paid"
    heard = {row["id"]: row["words"] for row in await world.db.fetch(HEARD)}
    assert heard == {"a": "[1, 2, 3]", "b": "[1, 2, 3]", "later": "[1]"}
    assert set(world.counterparty.accepted.values()) == {1}


async def exchange_mark(world: World) -> None:
    """Let the worker exchange the database's mark, as it does every 10 s."""
    mark = await world.db.fetchval("select mark from perdure.database")
    await world.mark_grows_old()
    await world.until(lambda: world.db.fetchval("select mark <> $1 from perdure.database", mark), "exchanged")


async def say(world: World, name: str, word: int) -> None:
    """Send it a word, and wait until the word is delivered."""
    await world.client.signal(KeptSale, name, "hear", word)
    await world.until(lambda: world.db.fetchval("select not exists (select from perdure.outbox)"), "delivered")
