"""`perdure archive export` writes all that is on record, or no files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from perdure._retention import exporting, working
from perdure._retention.exporting import COLUMNS
from perdure._retention.parquet import ParquetFile
from tests.integration.retention.months import (
    NAME,
    Connection,
    connected,
    everything,
    finished,
    perdure,
    pq,
    still_open,
)

EXPORTED = "select exported_at is not null from perdure.month"


def read(folder: Path, part: str) -> Any:
    return pq.read_table(folder / f"{part}-{NAME}.parquet")


async def test_the_files_hold_each_row_of_the_month_and_a_second_time_the_same(
    dsn: str, db: Connection, tmp_path: Path
) -> None:
    for number in range(30):
        await finished(db, f"e{number}", effect="in_doubt" if number == 7 else "done")
    await still_open(db, "parked")
    await db.execute("select perdure.start('order', 'new', '{}')")
    folder = tmp_path / "made" / "here"
    end = await perdure(dsn, "archive", "export", NAME, "--to", str(folder))
    assert (end.exit_code, end.stdout.count("\n")) == (0, 3), end.output
    for part in ("finished", "transition"):
        names = ", ".join(name for name, _ in COLUMNS[part])
        rows = await db.fetch(f"select {names} from perdure.{part}_2020_01 order by lifecycle, id, generation")
        found = [tuple(row.values()) for row in read(folder, part).to_pylist()]
        assert sorted(found, key=str) == sorted((tuple(row) for row in rows), key=str)
    assert [json.loads(each)["to"] for each in read(folder, "finished")["input"].to_pylist()][:2] == ["e0", "e1"]
    assert sorted(read(folder, "effect")["status"].to_pylist()) == ["done"] * 29 + ["in_doubt"]
    assert len(read(folder, "transition")) == 62
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert len(before) == 3
    assert (await perdure(dsn, "archive", "export", NAME, PERDURE_ARCHIVE_TO=str(folder))).exit_code == 0
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    files = json.loads(await db.fetchval("select files from perdure.month"))
    assert [(each["part"], each["rows"]) for each in files] == [("finished", 30), ("transition", 62), ("effect", 30)]


async def test_every_column_is_exported_but_the_number_of_a_transaction(db: Connection) -> None:
    sql = "select column_name from information_schema.columns where table_schema = 'perdure' and table_name = $1"
    for part, columns in COLUMNS.items():
        assert {row[0] for row in await db.fetch(sql, part)} - {"xid"} == {name for name, _ in columns}
    carried = {row[0] for row in await db.fetch(sql, "carried_transition")}
    assert carried == {row[0] for row in await db.fetch(sql, "transition")}


async def test_what_is_held_in_memory_is_bounded_by_bytes_and_by_rows(
    dsn: str, db: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await finished(db, "a")
    await db.execute(
        "insert into perdure.finished (lifecycle, id, generation, state, snapshot, created_at, finished_at) "
        "select 'order', 'm' || n, 0, 's', to_jsonb(repeat('x', 10000)), now(), '2020-01-04' "
        "from generate_series(1, 90) n"
    )
    held: list[int] = []
    add = ParquetFile.add

    def counted(self: ParquetFile, rows: Sequence[Any]) -> None:
        held.append(len(rows))
        add(self, rows)

    monkeypatch.setattr(ParquetFile, "add", counted)
    for rows, size, most in ((20_000, 25_000, 3), (7, 10**9, 7)):
        monkeypatch.setattr(exporting, "GROUP_ROWS", rows)
        monkeypatch.setattr(exporting, "GROUP_BYTES", size)
        monkeypatch.setattr(exporting, "_FETCHED", 10_000)
        held.clear()
        assert (await perdure(dsn, "archive", "export", NAME, "--to", str(tmp_path))).exit_code == 0
        assert max(held[1:-2]) <= most, "but for the first ones, asked for before anything is known of the rows"
        assert pq.read_metadata(tmp_path / f"finished-{NAME}.parquet").num_row_groups == len(held) - 2


async def test_a_file_that_is_not_what_is_on_record_is_no_export(
    dsn: str, db: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await finished(db, "a")
    good = ParquetFile.add

    def forgetful(self: ParquetFile, rows: Sequence[Any]) -> None:
        good(self, rows[: -1 if "transition" in self.path.name else None])

    monkeypatch.setattr(ParquetFile, "add", forgetful)
    end = await perdure(dsn, "archive", "export", NAME, "--to", str(tmp_path))
    assert end.exit_code == 1
    assert "has 1 rows, the database 2: nothing was exported" in str(end.exception)
    assert [file.name for file in tmp_path.iterdir()] == [f"finished-{NAME}.parquet"]
    assert not await db.fetchval(EXPORTED)


async def test_a_month_into_which_somebody_still_writes_is_not_exported(
    dsn: str, db: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await finished(db, "a")
    monkeypatch.setattr(working, "_TRIES", 2)
    async with connected(dsn) as slow, slow.transaction():
        await slow.execute("update perdure.transition_2020_01 set why = 'late'")
        end = await perdure(dsn, "archive", "export", NAME, "--to", str(tmp_path))
    assert "a transaction still writes into 2020-01" in str(end.exception)
    assert list(tmp_path.iterdir()) == []
    assert (await perdure(dsn, "archive", "export", NAME, "--to", str(tmp_path))).exit_code == 0
    assert read(tmp_path, "transition")["why"].to_pylist() == ["late", "late"]


NOT_OURS = "was not written by this database in its present epoch"


async def test_a_file_of_another_database_is_not_replaced(dsn: str, db: Connection, tmp_path: Path) -> None:
    await finished(db, "a")
    assert (await perdure(dsn, "archive", "export", NAME, "--to", str(tmp_path))).exit_code == 0
    file = tmp_path / f"transition-{NAME}.parquet"
    other = read(tmp_path, "transition").replace_schema_metadata({"perdure": '{"database": "1.2"}'})
    pq.write_table(other, file)
    before = file.read_bytes()
    end = await perdure(dsn, "archive", "export", NAME, "--to", str(tmp_path))
    assert NOT_OURS in str(end.exception)
    assert file.read_bytes() == before
    file.write_bytes(b"no Parquet")
    end = await perdure(dsn, "archive", "export", NAME, "--to", str(tmp_path))
    assert NOT_OURS in str(end.exception)
    assert file.read_bytes() == b"no Parquet"


async def test_a_file_of_an_earlier_epoch_is_not_replaced_and_its_month_can_be_dropped(
    dsn: str, db: Connection, tmp_path: Path
) -> None:
    await finished(db, "a")
    export = ("archive", "export", NAME, "--to", str(tmp_path))
    assert (await perdure(dsn, *export)).exit_code == 0
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    await db.execute("update perdure.database set epoch = epoch + 1")  # as after a restore or a failover
    assert NOT_OURS in str((await perdure(dsn, *export)).exception)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    assert (await perdure(dsn, "archive", "drop", NAME, "--yes")).exit_code == 0


async def test_a_file_that_another_database_writes_meanwhile_is_not_replaced(
    dsn: str, db: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await finished(db, "a")
    file = tmp_path / f"finished-{NAME}.parquet"
    add = ParquetFile.add

    def beside(self: ParquetFile, rows: Sequence[Any]) -> None:
        file.write_bytes(b"of another one")
        add(self, rows)

    monkeypatch.setattr(ParquetFile, "add", beside)
    end = await perdure(dsn, "archive", "export", NAME, "--to", str(tmp_path))
    assert NOT_OURS in str(end.exception)
    assert [each.name for each in tmp_path.iterdir()] == [file.name]
    assert file.read_bytes() == b"of another one"


async def test_a_database_that_is_not_verified_exports_nothing(dsn: str, db: Connection, tmp_path: Path) -> None:
    await finished(db, "a")
    await db.execute("update perdure.database set stopped = 'it is a copy'")
    end = await perdure(dsn, "archive", "export", NAME, "--to", str(tmp_path / "made"))
    assert "nothing is exported from here: it is a copy." in str(end.exception)
    assert list(tmp_path.iterdir()) == []


CAN_NOT_BE_DONE: list[tuple[list[str], int, str]] = [
    (["export", "2026-13", "--to", "x"], 2, "'2026-13' is no month"),
    (["export", "january", "--to", "x"], 2, "'january' is no month"),
    (["drop", "2020-1", "--yes"], 2, "'2020-1' is no month"),
    (["export", NAME], 2, "PERDURE_ARCHIVE_TO"),
    (["export", "1999-12", "--to", "x"], 1, "there is no month 1999-12 in this database: `perdure archive list`"),
    (["drop", "1999-12", "--yes"], 1, "there is no month 1999-12 in this database"),
    (["export", "{now}", "--to", "x"], 1, "is not over: it can be exported from"),
    (["drop", "{now}", "--yes"], 1, "is not over: it can be dropped from"),
    (["drop", NAME, "--yes"], 1, "2020-01 was not exported: `perdure archive export 2020-01` first"),
    (["drop", NAME, "--without-export"], 2, "Drop 2020-01 for good?"),
    (["export", NAME, "--to", "{file}/x"], 1, "it can't be written: "),
]


async def test_what_can_not_be_done_is_said_and_changes_nothing(dsn: str, db: Connection, tmp_path: Path) -> None:
    await finished(db, "a")
    (tmp_path / "file").write_text("")
    this_month = await db.fetchval("select to_char(now() at time zone 'UTC', 'YYYY-MM')")
    before = await everything(db)
    for arguments, status, said in CAN_NOT_BE_DONE:
        given = [each.format(now=this_month, file=tmp_path / "file") for each in arguments]
        end = await perdure(dsn, "archive", *given)
        shown = " ".join(f"{end.output}{end.exception}".split())
        assert (end.exit_code, said in shown) == (status, True), (arguments, shown)
        assert await everything(db) == before, arguments


async def test_what_is_to_be_kept_still_is_not_dropped(dsn: str, db: Connection) -> None:
    await finished(db, "a")
    end = await perdure(dsn, "archive", "drop", NAME, "--without-export", "--yes", PERDURE_RETENTION="1200")
    assert "2020-01 is kept until 2120-02-01 00:00 UTC: PERDURE_RETENTION is 1200 months" in str(end.exception)
    assert await db.fetchval("select count(*) from perdure.finished") == 1
