"""`perdure archive drop` removes a whole month, blocks nobody, and removes nothing that is still needed."""

from __future__ import annotations

import asyncio
import json
from datetime import date
from pathlib import Path

import asyncpg
import pytest

from perdure._retention import dropping, working
from perdure._retention.dropping import tidy
from perdure._retention.months import every_month
from tests.deadline import in_time, until
from tests.integration.retention.months import (
    LONG_AGO,
    NAME,
    PARTITIONS,
    Connection,
    connected,
    everything,
    finished,
    key_of,
    keys,
    perdure,
    pq,
    still_open,
)
from tests.integration.store.stores import a_begin, a_move, store_at, written

DROP = ("archive", "drop", NAME, "--without-export", "--yes")
PENDING = "select coalesce(bool_or(inhdetachpending), false) from pg_inherits"
CARRIED = "select array_agg(id || ' ' || state order by id, version) from perdure.carried_transition"


async def test_a_month_goes_with_all_that_is_about_what_finished_in_it(
    dsn: str, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dropping, "BATCH", 3)
    for number in range(10):
        await finished(db, f"e{number}")
    await finished(db, "later", date(2020, 2, 1))
    await db.execute(
        "insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason) "
        "values (1, 'order', 'e1', 0, 'message', '{}', 'r'), (2, 'order', 'later', 0, 'message', '{}', 'r');"
        "insert into perdure.behind (lifecycle, id, app_table, app_column, app_key) "
        "values ('order', 'e1', 't', 'c', 'k'), ('order', 'later', 't', 'c', 'k')"
    )
    end = await perdure(dsn, *DROP)
    assert (end.exit_code, end.stdout.splitlines()[-1]) == (0, "dropped 2020-01"), end.output
    assert await db.fetchval(PARTITIONS) == 0
    assert await keys(db) == [key_of("later")]
    for table in ("finished", "rejected", "behind"):
        assert [row[0] for row in await db.fetch(f"select id from perdure.{table}")] == ["later"]
    assert await db.fetchval("select dropped_at is not null from perdure.month")
    assert await db.fetchval("select count(*) from perdure.ident") == 11
    again = await perdure(dsn, *DROP)
    assert (again.exit_code, "2020-01 was dropped at" in str(again.exception)) == (1, True)
    assert await db.fetchval("select perdure.make_month($1)", LONG_AGO) == 0, "nor is it made again"


async def test_what_finished_in_it_stays_finished_and_a_restart_needs_its_input_again(dsn: str, db: Connection) -> None:
    await finished(db, "a")
    assert (await perdure(dsn, *DROP)).exit_code == 0
    assert await db.fetchval("select perdure.start('order', 'a', '{}')") == "finished"
    async with store_at(dsn) as store:
        begin = a_begin("a", 10).model_copy(update={"lifecycle": "order"})
        [answer] = await written(store, begin)
        assert (answer.gate, answer.verdict, await keys(db)) == ("final", None, []), "no call, though its fence is gone"
    restart = "select perdure.restart('order', 'a', 'ann', 'again', input => $1)"
    with pytest.raises(asyncpg.NoDataFoundError, match="input of order/a is no longer on record") as refusal:
        await db.execute(restart, None)
    assert refusal.value.hint == "Give it again: input => ... in SQL, given= in Python, --input FILE with the command."
    of_command = await perdure(dsn, "restart", "order", "a", "--by", "ann", "--note", "again")
    assert (of_command.exit_code, "--input FILE with the command" in of_command.stderr) == (1, True), of_command.output
    assert await db.fetchval(restart, "{}") == 1


async def test_an_open_entity_pins_no_month_and_what_it_did_is_kept_until_it_is_over(dsn: str, db: Connection) -> None:
    await finished(db, "done")
    await still_open(db, "parked")
    await still_open(db, "since", date(2020, 2, 1))
    await db.execute("update perdure.ident set generation = 1 where id = 'since'")
    end = await perdure(dsn, *DROP)
    assert (end.exit_code, "kept apart, since they are open: order/parked (2)\n" in end.stdout) == (0, True)
    assert "1 open entities are in it" in end.stdout
    assert await db.fetchval(CARRIED) == ["parked pending", "parked waiting"]
    await tidy(db)
    async with store_at(dsn) as store:
        await written(store, a_move("parked", 10, "over", final=True).model_copy(update={"lifecycle": "order"}))
    await tidy(db)
    assert await db.fetchval(CARRIED) == ["parked pending", "parked waiting"], "as long as its last month is there"
    await db.execute("delete from perdure.transition where id = 'parked'")
    await tidy(db)
    assert await db.fetchval(CARRIED) is None


async def test_of_an_entity_that_was_restarted_each_round_goes_with_its_own_month(dsn: str, db: Connection) -> None:
    await finished(db, "a")
    await finished(db, "a", date(2020, 2, 1), generation=1)
    assert (await perdure(dsn, *DROP)).exit_code == 0
    assert await keys(db) == [key_of("a", 1)]


@pytest.mark.parametrize("doubt", ["in_doubt", "attempting"])
async def test_a_doubt_outlives_its_month_until_it_is_settled(dsn: str, db: Connection, doubt: str) -> None:
    await finished(db, "a", effect=doubt)
    await finished(db, "b")
    end = await perdure(dsn, *DROP)
    said = "in doubt still, so their effects stay (perdure resolve): order/a/ship\n"
    assert (end.exit_code, said in end.stdout) == (0, True)
    assert await keys(db) == [key_of("a")]
    restart = "select perdure.restart('order', 'a', 'ann', 'again', input => '{}')"
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="whether 'order/a/ship' happened is not known"):
        await db.execute(restart)
    await tidy(db)
    assert await keys(db) == [key_of("a")]
    await db.execute("select perdure.resolve('order', 'a', 'ship', 'done', 'ann', 'seen')")
    await tidy(db)
    assert await keys(db) == []
    assert await db.fetchval("select count(*) from perdure.kept_effect") == 0


async def test_an_effect_that_somebody_holds_is_not_waited_for_and_goes_later(dsn: str, db: Connection) -> None:
    await finished(db, "a")
    await finished(db, "b")
    async with connected(dsn) as app, app.transaction():
        await app.execute("select from perdure.effect where id = 'a' for update")
        assert (await in_time(perdure(dsn, *DROP))).exit_code == 0
        assert await keys(db) == [key_of("a")]
    await tidy(db)
    assert await keys(db) == []


async def test_writers_go_on_while_a_reader_holds_the_month_open(dsn: str, db: Connection) -> None:
    await finished(db, "a")
    async with connected(dsn) as reader, store_at(dsn) as store:
        await reader.execute("begin; select count(*) from perdure.transition; select count(*) from perdure.finished")
        dropping = asyncio.create_task(perdure(dsn, *DROP))
        await until(lambda: db.fetchval(PENDING), "the detach waits for the reader")
        await db.execute("set lock_timeout = '1s'")
        for number in range(20):
            await db.execute("select perdure.start('booking', $1, '{}')", str(number))
        answers = await written(store, *(a_move(number, 5, "done", final=True) for number in range(20)))
        assert [each.state for each in answers] == ["done"] * 20
        await db.execute("select perdure.make_months(3)")  # as a worker that starts
        assert not dropping.done()
        await reader.execute("commit")
        assert (await dropping).exit_code == 0
    assert await db.fetchval(PARTITIONS) == 0


async def test_a_detach_that_was_cut_off_is_finished(dsn: str, db: Connection) -> None:
    await finished(db, "a")
    async with connected(dsn) as reader:
        await reader.execute("begin; select count(*) from perdure.transition; select count(*) from perdure.finished")
        cut_off = asyncio.create_task(perdure(dsn, *DROP))
        await until(lambda: db.fetchval(PENDING), "the detach waits for the reader")
        await db.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and query like 'alter table%'"
        )
        assert (await cut_off).exit_code == 1
        await reader.execute("commit")
    assert await db.fetchval(PENDING)
    assert (await perdure(dsn, *DROP)).exit_code == 0
    assert await db.fetchval(PARTITIONS) == 0


async def test_rows_that_came_after_the_export_are_not_dropped(dsn: str, db: Connection, tmp_path: Path) -> None:
    await finished(db, "a")
    export = ("archive", "export", NAME, "--to", str(tmp_path))
    assert (await perdure(dsn, *export)).exit_code == 0
    await finished(db, "b")
    end = await perdure(dsn, "archive", "drop", NAME, "--yes")
    assert "2020-01 has 2 rows in perdure.finished_2020_01, and 1 were exported" in str(end.exception)
    assert await db.fetchval(PARTITIONS) == 2
    assert await keys(db) == [key_of("a"), key_of("b")]
    assert (await perdure(dsn, *export)).exit_code == 0, "also where it is detached"
    assert (await perdure(dsn, "archive", "drop", NAME, "--yes")).exit_code == 0
    assert await db.fetchval(PARTITIONS) == 0


@pytest.mark.parametrize("problem", ["gone", "truncated", "damaged"])
async def test_a_month_whose_file_is_not_here_as_it_was_written_is_not_dropped(
    dsn: str, db: Connection, tmp_path: Path, problem: str
) -> None:
    await finished(db, "a")
    assert (await perdure(dsn, "archive", "export", NAME, "--to", str(tmp_path))).exit_code == 0
    file = tmp_path / f"finished-{NAME}.parquet"
    whole = file.read_bytes()
    if problem == "gone":
        file.unlink()
    elif problem == "truncated":
        file.write_bytes(whole[:100])
    else:
        page = pq.read_metadata(file).row_group(0).column(1).data_page_offset
        file.write_bytes(whole[: page + 30] + bytes([whole[page + 30] ^ 1]) + whole[page + 31 :])
    before = await everything(db)
    end = await perdure(dsn, "archive", "drop", NAME, "--yes")
    assert f"{file} is not here as it was written: drop 2020-01 where it is" in str(end.exception)
    assert await everything(db) == before
    assert (await perdure(dsn, *DROP)).exit_code == 0, "there is a way out where the folder is not"


async def test_what_is_half_dropped_is_not_exported_over_the_whole(
    dsn: str, db: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await finished(db, "a")
    export = ("archive", "export", NAME, "--to", str(tmp_path))
    assert (await perdure(dsn, *export)).exit_code == 0
    with monkeypatch.context() as broken:
        broken.setattr(dropping, "_drop_tables", _cut_off)
        assert (await perdure(dsn, "archive", "drop", NAME, "--yes")).exit_code == 130
    listed = await perdure(dsn, "archive", "list")
    assert "half dropped" in listed.stdout
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    end = await perdure(dsn, *export)
    assert "is being dropped, and no longer whole: `perdure archive drop 2020-01` finishes that" in str(end.exception)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    assert (await perdure(dsn, "archive", "drop", NAME, "--yes")).exit_code == 0


async def _cut_off(*_: object) -> None:
    raise KeyboardInterrupt


async def test_of_two_at_once_one_says_so(dsn: str, db: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    await finished(db, "a")
    monkeypatch.setattr(working, "_WAITING", "set local lock_timeout = '50ms'")
    before = await everything(db)
    async with working.working(dsn):
        end = await perdure(dsn, *DROP)
    assert "another export or drop is under way in this database" in str(end.exception)
    assert await everything(db) == before


async def test_the_list_has_what_a_person_and_a_script_need(dsn: str, db: Connection, tmp_path: Path) -> None:
    await finished(db, "a")
    await still_open(db, "parked")
    await finished(db, "b", date(2020, 2, 1))
    await perdure(dsn, "archive", "export", NAME, "--to", str(tmp_path))
    await perdure(dsn, "archive", "drop", "2020-02", "--without-export", "--yes")
    await db.execute("analyze perdure.finished_2020_01, perdure.transition_2020_01")
    plain = (await perdure(dsn, "archive", "list")).stdout
    assert all(part in plain for part in ("2020-01", "over", "2020-02", "dropped", "under way"))
    lines = [json.loads(line) for line in (await perdure(dsn, "archive", "list", "--json")).stdout.splitlines()]
    first, second, *_, last = lines
    assert (first["month"], first["state"], first["finished"], first["transitions"]) == (NAME, "over", 1, 4)
    assert (first["open"], len(first["files"])) == (1, 3)
    assert (second["month"], second["state"], second["bytes"]) == ("2020-02", "dropped", 0)
    assert (last["state"], last["open"]) == ("under way", None)


async def test_a_month_of_which_a_table_was_dropped_by_hand_goes_as_well(dsn: str, db: Connection) -> None:
    await finished(db, "a")
    await db.execute("drop table perdure.transition_2020_01")
    assert (await perdure(dsn, *DROP)).exit_code == 0
    assert await keys(db) == []
    assert [each for each in await every_month(db) if each.first == LONG_AGO and each.tables] == []


async def test_while_a_drop_waits_for_a_transaction_of_the_app_everybody_else_goes_ahead(
    dsn: str, db: Connection
) -> None:
    await finished(db, "a")
    await db.execute(
        "delete from perdure.feed_origin"
    )  # as in a database that was restored: all writers are waited for
    waiting = "select count(*) > 0 from pg_locks where not granted and relation = 'perdure.transition'::regclass"
    async with connected(dsn) as slow, connected(dsn) as app:
        await slow.execute("begin; select perdure.start('booking', 'slow', '{}')")
        task = asyncio.create_task(perdure(dsn, *DROP))
        await app.execute("set lock_timeout = '5s'")
        for number in range(5):
            await until(lambda: db.fetchval(waiting), "the drop waits for the slow transaction")
            await app.execute("select perdure.start('booking', $1, '{}')", str(number))
        assert not task.done(), "nor has it given up"
        await slow.execute("commit")
        assert (await in_time(task)).exit_code == 0
    assert await db.fetchval(PARTITIONS) == 0


async def test_a_table_that_somebody_reads_by_name_is_left_after_some_tries(
    dsn: str, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await finished(db, "a")
    monkeypatch.setattr(working, "_TRIES", 2)
    tables = "select array_agg(relname::text) from pg_class where relname like '%_2020_01' and relkind = 'r'"
    with monkeypatch.context() as broken:
        broken.setattr(dropping, "_drop_tables", _cut_off)
        assert (await perdure(dsn, *DROP)).exit_code == 130
    async with connected(dsn) as reader:
        await reader.execute("begin; select from perdure.finished_2020_01")
        end = await perdure(dsn, *DROP)
        assert "another session reads perdure.finished_2020_01" in str(end.exception)
        assert len(await db.fetchval(tables)) == 2
        await reader.execute("commit")
    assert (await perdure(dsn, *DROP)).exit_code == 0
    assert await db.fetchval(tables) is None
