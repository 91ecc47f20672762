"""A follower of the feed gets an error if it had not read what was dropped, and no other follower does."""

from __future__ import annotations

from datetime import date

import asyncpg
import pytest

from perdure import Client
from perdure.errors import InvalidPosition
from tests.integration.retention.months import NAME, Connection, connected, finished, perdure

FEED = "select * from perdure.feed($1, $2)"
DROP = ("archive", "drop", NAME, "--without-export", "--yes")


async def position(db: Connection, after: str | None = None, most: int = 100) -> str:
    """Where the feed goes on after a page."""
    return str((await db.fetch(FEED, after, most))[-1]["position"])


async def ids(db: Connection, after: str | None) -> list[str]:
    return [row["id"] for row in await db.fetch(FEED, after, 100)]


async def lost(db: Connection, after: str) -> str | None:
    """The way out, where a position does not hold any more."""
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="2020-01 was dropped, with transitions") as end:
        await db.fetch(FEED, after, 100)
    return str(end.value.hint)


async def test_a_follower_that_has_not_read_what_was_dropped_is_told_and_can_go_on(dsn: str, db: Connection) -> None:
    await finished(db, "before", date(2020, 2, 1))
    behind = await position(db)
    await finished(db, "old")
    inside = await position(db, behind, 1)
    await finished(db, "new", date(2020, 2, 1))
    early, half = await position(db, None, 1), await position(db, None, 3)
    all_but_the_new_one = await position(db, None, 5)
    assert (await perdure(dsn, *DROP)).exit_code == 0
    for after in (behind, inside, early, half):
        hint = await lost(db, after)
        assert "feed_position(since => '2020-02-01')" in str(hint)
    assert await ids(db, all_but_the_new_one) == ["new"]
    begin = await db.fetchval("select perdure.feed_position('2020-02-01')")
    assert await ids(db, begin) == ["before"] * 2 + ["new"] * 2
    assert await ids(db, await position(db, begin, 1)) == ["before"] + ["new"] * 2, "nor is the way out lost on its way"
    assert await ids(db, None) == ["before"] * 2 + ["new"] * 2
    assert await ids(db, await position(db, None, 3)) == ["new"]


async def test_a_follower_that_has_read_all_of_it_goes_on(dsn: str, db: Connection) -> None:
    await finished(db, "old")
    at_the_end = await position(db)
    assert (await perdure(dsn, *DROP)).exit_code == 0
    assert await ids(db, at_the_end) == []
    await finished(db, "new", date(2020, 2, 1))
    assert await ids(db, at_the_end) == ["new", "new"]


async def test_a_follower_that_has_read_all_beside_an_older_transaction_goes_on(dsn: str, db: Connection) -> None:
    async with connected(dsn) as older:
        await older.execute("begin; select pg_current_xact_id()")
        await finished(db, "old")
        at_the_end = await position(db)
        await older.execute("commit")
    assert (await perdure(dsn, *DROP)).exit_code == 0
    assert await ids(db, at_the_end) == []


async def test_a_follower_of_a_restored_database_that_has_not_read_what_was_dropped_is_told(
    dsn: str, db: Connection
) -> None:
    for name in ("a", "b", "c"):
        await finished(db, name)
    await finished(db, "new", date(2020, 2, 1))
    await db.execute("update perdure.feed_origin set system_identifier = 1")  # as `pg_restore` leaves it
    inside, at_the_end = await position(db, None, 1), await position(db)
    assert (await perdure(dsn, *DROP)).exit_code == 0
    await lost(db, inside)
    assert await ids(db, at_the_end) == []
    assert await ids(db, await position(db, None, 1)) == ["new"], "a position of after the drop promised nothing of it"


async def test_what_was_written_late_is_told_as_well(dsn: str, db: Connection) -> None:
    await finished(db, "old")
    async with connected(dsn) as slow, slow.transaction():
        await slow.execute("select pg_current_xact_id()")
        await finished(slow, "late")
        await finished(db, "between", date(2020, 2, 1))
        read_to_the_end = await position(db)
    assert (await perdure(dsn, *DROP)).exit_code == 0
    await lost(db, read_to_the_end)


async def test_the_client_says_how_to_begin_again(dsn: str, db: Connection) -> None:
    await db.execute("select perdure.start('order', 'first', '{}')")
    behind = await position(db)
    await finished(db, "old")
    assert (await perdure(dsn, *DROP)).exit_code == 0
    pool = await asyncpg.create_pool(dsn, min_size=1, max_size=1)
    with pytest.raises(InvalidPosition, match=r"2020-01 was dropped.*Begin again with perdure.feed_position\(since"):
        await anext(Client(pool).feed(behind, wait=False))
    await pool.close()


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_a_transaction_that_is_older_than_the_drop_does_not_pass_over_the_month(
    dsn: str, db: Connection, isolation: str
) -> None:
    """It sees neither the month, which is no partition any more, nor the note of its drop."""
    await finished(db, "before", date(2020, 2, 1))
    behind = await position(db)
    await finished(db, "old")
    await finished(db, "new", date(2020, 2, 1))
    async with connected(dsn) as follower:
        await follower.execute(f"begin isolation level {isolation}; select")
        assert (await perdure(dsn, *DROP)).exit_code == 0
        with pytest.raises(asyncpg.SerializationError, match="a month was dropped"):
            await follower.fetch(FEED, behind, 100)
        await follower.execute("rollback")
        await lost(follower, behind)
