"""Erasure, feed and archive work with `standard_conforming_strings = off`, as old applications set it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.integration.retention.months import NAME, Connection, connected, everything, finished, keys, perdure

FORGET = "select perdure.forget('order', 'ok1', 'the officer')"


@pytest.fixture
async def old(dsn: str, database: str) -> AsyncIterator[Connection]:
    """A connection to a database with that setting."""
    async with connected(dsn) as db:
        await db.execute(f"alter database {database} set standard_conforming_strings = off")
    async with connected(dsn) as db:
        assert await db.fetchval("show standard_conforming_strings") == "off"
        yield db


async def test_forget_erases(old: Connection) -> None:
    await finished(old, "ok1")
    await finished(old, "ok2")
    await old.execute(FORGET)
    assert await keys(old) == ["order/ok2/ship"]
    left = {table for table, rows in (await everything(old)).items() if any("ok1" in row for row in rows)}
    assert left == {"ident", await old.fetchval("select 'transition_' || to_char(now() at time zone 'UTC', 'YYYY_MM')")}
    reasons = await old.fetch("select why from perdure.transition where id = 'ok1'")
    assert [row["why"] for row in reasons] == ["forgotten"]


async def test_the_feed_continues_from_its_own_position(old: Connection) -> None:
    seen, place = [], None
    for name in ("ok1", "ok2"):
        assert await old.fetchval("select perdure.start('order', $1, '{}')", name) == "started"
    for _ in range(2):
        event = await old.fetchrow("select position, id from perdure.feed($1, 1)", place)
        assert event is not None
        place = event["position"]
        seen.append(event["id"])
    assert seen == ["ok1", "ok2"]


async def test_an_id_with_unseen_characters_is_refused(old: Connection) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match="'ok\ufffd1' can not be an entity id"):
        await old.fetchval("select perdure.start('order', $1, '{}')", "ok\u200b1")


async def test_the_archive_finds_the_months(old: Connection, dsn: str) -> None:
    await finished(old, "ok1")
    end = await perdure(dsn, "archive", "list")
    assert (end.exit_code, NAME in end.stdout) == (0, True), end.output


async def test_forget_is_refused_where_it_finds_no_month(db: Connection) -> None:
    await finished(db, "ok1")
    for (name,) in await db.fetch(
        "select inhrelid::regclass::text from pg_inherits where inhparent = $1::regclass", "perdure.finished"
    ):
        await db.execute(f"drop table {name}")
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="so order/ok1 was not erased"):
        await db.execute(FORGET)
    assert await keys(db) == ["order/ok1/ship"]
