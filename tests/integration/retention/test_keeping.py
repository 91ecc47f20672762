"""The reconciliation drops months that are older than configured, and never before their export."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Self

import asyncpg
import pytest

from perdure._retention import dropping, working
from perdure._retention.dropping import drop
from perdure._retention.keeping import MonthsKept, keep_months
from perdure._retention.months import the_month
from perdure._retention.parquet import ParquetFile
from perdure._store.postgres import Database, Pool
from tests.integration.retention.months import (
    NAME,
    Connection,
    finished,
    keys,
    perdure,
    pq,
    settings,
    still_open,
)

TABLES = (
    "select array_agg(month order by month) from (select right(relname, 7) as month from pg_class "
    "where relkind = 'r' and relname ~ '^finished_\\d') months"
)


@pytest.fixture
async def pool(dsn: str) -> AsyncIterator[Pool]:
    """As a worker has it."""
    database = Database(dsn, most=2)
    yield await database.open()
    await database.close()


async def months_ago(db: Connection, months: int) -> date:
    """The first day of a month."""
    sql = "select (date_trunc('month', now() at time zone 'UTC') - make_interval(months => $1))::date"
    found: date = await db.fetchval(sql, months)
    return found


async def test_only_what_is_older_than_wanted_goes_once_it_is_exported(
    dsn: str, db: Connection, pool: Pool, tmp_path: Path
) -> None:
    ages = {months: await months_ago(db, months) for months in (5, 4, 3)}
    for months, month in ages.items():
        await finished(db, f"e{months}", month)
    await finished(db, "doubt", ages[5], effect="in_doubt")
    await still_open(db, "parked", ages[4])
    config = settings(dsn, retention=3, archive_to=str(tmp_path))
    kept = await keep_months(config, pool)
    gone = [f"{ages[5]:%Y-%m}", f"{ages[4]:%Y-%m}"]
    assert kept == MonthsKept(exported=gone, dropped=gone, carried=2, doubts=["order/doubt/ship"])
    assert await keys(db) == ["order/doubt/ship", "order/e3/ship"]
    assert len(list(tmp_path.iterdir())) == 6
    assert pq.read_table(tmp_path / f"finished-{gone[0]}.parquet")["id"].to_pylist() == ["doubt", "e5"]
    assert await keep_months(config, pool) == MonthsKept()


async def test_a_database_whose_clock_has_jumped_ahead_drops_nothing_early(
    dsn: str, db: Connection, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await finished(db, "a", await months_ago(db, 3))

    class Behind(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp((datetime.now(UTC) - timedelta(days=92)).timestamp(), tz)

    monkeypatch.setattr("perdure._retention.months.datetime", Behind)
    assert (await keep_months(settings(dsn, retention=1), pool)).dropped == []
    monkeypatch.undo()
    assert (await keep_months(settings(dsn, retention=1), pool)).dropped == [f"{await months_ago(db, 3):%Y-%m}"]


async def test_a_month_that_a_clock_ahead_has_dropped_is_made_again_when_the_clock_is_right(
    dsn: str, db: Connection
) -> None:
    this_month = await months_ago(db, 0)
    await drop(db, await the_month(db, this_month), lambda _: None, without_export=True)
    with pytest.raises(asyncpg.PostgresError, match="no partition of relation"):
        await db.execute("select perdure.start('order', 'a', '{}')")
    await db.execute("select perdure.make_months()")
    await db.execute("select perdure.start('order', 'a', '{}')")
    assert (await the_month(db, this_month)).dropped_at is None, "it can be dropped in its time"


async def test_without_a_wish_nothing_goes_and_the_months_to_come_are_made(
    dsn: str, db: Connection, pool: Pool
) -> None:
    await finished(db, "old")
    newest = (await db.fetchval(TABLES))[-1]
    await db.execute(f"drop table perdure.finished_{newest}")
    assert await keep_months(settings(dsn), pool) == MonthsKept()
    months = await db.fetchval(TABLES)
    assert (months[0], months[-1]) == ("2020_01", newest)


@pytest.mark.parametrize("problem", ["the folder is a file", "a row is lost on the way"])
async def test_what_could_not_be_exported_is_not_dropped(
    dsn: str, db: Connection, pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: str
) -> None:
    await finished(db, "a")
    folder = tmp_path / "here"
    if problem == "the folder is a file":
        folder.write_text("")
    else:
        monkeypatch.setattr(ParquetFile, "add", lambda *_: None)
    before = await db.fetchval(TABLES)
    kept = await keep_months(settings(dsn, retention=1, archive_to=str(folder)), pool)
    assert (len(kept.problems), kept.dropped, await db.fetchval(TABLES)) == (1, [], before)
    assert kept.problems[0].startswith("2020-01: ")


async def test_one_month_that_can_not_go_leaves_the_others_to_go(
    dsn: str, db: Connection, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await finished(db, "a")
    await finished(db, "b", date(2020, 2, 1))
    clear = dropping._clear

    async def broken(connection: Connection, month: Any) -> None:
        if str(month) == "2020-01":
            await connection.execute("select 1/0")
        await clear(connection, month)

    monkeypatch.setattr(dropping, "_clear", broken)
    kept = await keep_months(settings(dsn, retention=1), pool)
    assert (kept.dropped, kept.problems) == (["2020-02"], ["2020-01: division by zero"])


async def test_what_came_after_an_export_is_exported_before_it_goes(
    dsn: str, db: Connection, pool: Pool, tmp_path: Path
) -> None:
    await finished(db, "a")
    config = settings(dsn, retention=1, archive_to=str(tmp_path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("perdure._retention.keeping.drop", _cut_off)
        assert (await keep_months(config, pool)).exported == ["2020-01"]
    await finished(db, "b")
    kept = await keep_months(config, pool)
    assert (kept.exported, kept.dropped) == (["2020-01"], ["2020-01"])
    assert pq.read_table(tmp_path / "finished-2020-01.parquet")["id"].to_pylist() == ["a", "b"]


async def test_a_month_that_was_exported_elsewhere_is_exported_to_the_folder_of_the_setting(
    dsn: str, db: Connection, pool: Pool, tmp_path: Path
) -> None:
    await finished(db, "a")
    folder, elsewhere = tmp_path / "archive", tmp_path / "tried"
    assert (await perdure(dsn, "archive", "export", NAME, "--to", str(elsewhere))).exit_code == 0
    kept = await keep_months(settings(dsn, retention=1, archive_to=str(folder)), pool)
    assert (kept.exported, kept.dropped) == ([NAME], [NAME])
    assert pq.read_table(folder / f"finished-{NAME}.parquet")["id"].to_pylist() == ["a"]


async def test_a_drop_that_was_begun_after_an_export_elsewhere_is_finished(
    dsn: str, db: Connection, pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await finished(db, "a")
    assert (await perdure(dsn, "archive", "export", NAME, "--to", str(tmp_path / "tried"))).exit_code == 0
    with monkeypatch.context() as broken:
        broken.setattr(dropping, "_drop_tables", _cut_off)
        assert (await perdure(dsn, "archive", "drop", NAME, "--yes")).exit_code == 1
    kept = await keep_months(settings(dsn, retention=1, archive_to=str(tmp_path / "archive")), pool)
    assert (kept.exported, kept.dropped, kept.problems) == ([], [NAME], [])


@pytest.mark.parametrize("gone", ["before the drop", "while the drop waits"])
async def test_a_month_whose_files_are_gone_is_exported_again_before_it_is_dropped(
    dsn: str, db: Connection, pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    await finished(db, "a")
    config = settings(dsn, retention=1, archive_to=str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr("perdure._retention.keeping.drop", _cut_off)
        assert (await keep_months(config, pool)).exported == [NAME]

    async def removed(*_: object) -> None:
        monkeypatch.undo()
        for file in tmp_path.iterdir():
            file.unlink()

    if gone == "before the drop":
        await removed()
    else:
        monkeypatch.setattr(dropping, "_detach", removed)
    kept = await keep_months(config, pool)
    assert (kept.exported, kept.dropped) == ([NAME], [NAME])
    assert len(list(tmp_path.iterdir())) == 3


async def _cut_off(*_: object, **__: object) -> None:
    raise asyncpg.QueryCanceledError("cut off")


async def test_while_another_one_is_at_it_nothing_is_touched(
    dsn: str, db: Connection, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await finished(db, "a")
    monkeypatch.setattr(working, "_WAITING", "set local lock_timeout = '50ms'")
    async with working.working(dsn):
        kept = await keep_months(settings(dsn, retention=1), pool)
    assert (kept.dropped, len(kept.problems)) == ([], 1)
    assert "2020_01" in await db.fetchval(TABLES)
