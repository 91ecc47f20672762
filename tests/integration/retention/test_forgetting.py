"""`perdure forget` leaves nothing of a finished entity but that it finished, here and in Temporal."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import pytest
from temporalio.service import RPCError, RPCStatusCode
from typer.testing import Result

from perdure._retention import exporting, forgetting, histories, working
from perdure._retention.forgetting import find_archives
from perdure._retention.histories import delete_runs
from perdure._retention.months import every_month
from perdure.contracts.keys import Entity
from perdure.errors import DatabaseUnavailable, NoSuchEntity, NotNow
from tests.apps.bodies import app
from tests.apps.bookings import Count, Counter, LookupBooking
from tests.apps.contracts import Booking
from tests.deadline import in_time, until
from tests.integration.retention.months import (
    NAME,
    Connection,
    connected,
    everything,
    finished,
    key_of,
    keys,
    pa,
    perdure,
    pq,
    still_open,
)
from tests.world import World

APP = "tests.apps.bodies:app"
FORGET = "select perdure.forget($1, $2, $3)"
DROP = ("archive", "drop", NAME, "--yes")
END_THE_WORK = """
    select pg_terminate_backend(pid) from pg_locks
    where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())
"""
AWKWARD = 'Ann "O\'Nymous" \\ 100%'
"""An id that is hard to quote."""


async def forget(world: World, *arguments: str) -> Result:
    """Run `perdure forget` in this process, against this world."""
    told = {"TEMPORAL_ADDRESS": world.temporal.address, "PERDURE_SCOPE": world.scope, "PERDURE_APP": APP}
    return await perdure(world.dsn, "forget", *arguments, "--by", "the officer", "--yes", **told)


async def runs(world: World, lifecycle: str) -> set[str]:
    """Runs of a lifecycle that Temporal lists."""
    listed = world.temporal_client.list_workflows(
        f'WorkflowType = "{lifecycle}" and TaskQueue = "{world.config.queue}"'
    )
    return {run.run_id async for run in listed}


async def is_known(world: World, lifecycle: str, entity_id: str, run: str) -> bool:
    """Whether Temporal still answers about a run."""
    workflow_id = f"{world.scope}:{lifecycle}/{entity_id}"
    try:
        await world.temporal_client.get_workflow_handle(workflow_id, run_id=run).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    return True


async def mentions(db: Connection, word: str) -> dict[str, list[str]]:
    """Rows that hold a word, by table, but those of relays, which have the names of all lifecycles."""
    tables = {table: rows for table, rows in (await everything(db)).items() if table != "relay"}
    found = {table: [row for row in rows if word in row] for table, rows in tables.items()}
    return {table: rows for table, rows in found.items() if rows}


async def test_of_what_finished_nothing_is_left_but_that_it_did(world: World) -> None:
    async with world.worker(app):
        for name in ("a", "b"):
            await world.client.start(LookupBooking, name, Booking(what=f"secret of {name}"), tenant=f"secret of {name}")
            await world.ended("lookup", name)
        await world.client.restart(LookupBooking, "a", by="ann", note="secret of a")
        assert await world.ended("lookup", "a") == "done"
    await world.db.execute(
        "insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason) "
        "values (1, 'lookup', 'a', 0, 'message', '{}', 'secret of a');"
        "insert into perdure.message (lifecycle, id, generation, message_id, kind, name, payload) "
        "values ('lookup', 'a', 0, 'late', 'signal', 'tell', '\"secret of a\"');"
        "insert into perdure.finding (kind, lifecycle, id, what, run) values ('k', 'lookup', 'a', 'secret of a', 1);"
        "insert into perdure.carried_transition select * from perdure.transition where id = 'a' limit 1"
    )
    others = await mentions(world.db, "secret of b")
    newest = await world.db.fetchval("select max(version) from perdure.transition where id = 'a'")
    await world.until(lambda: _lists(world, "lookup", 3), "Temporal lists three runs")
    before = [run for run in await runs(world, "lookup") if await is_known(world, "lookup", "a", run)]

    end = await forget(world, "lookup", "a")
    assert end.exit_code == 0, (end.output, end.exception)
    assert all(part in end.stdout for part in ("2 of effect", "2 of finished", "1 of carried_transition"))
    assert "2 histories in Temporal\n" in end.stdout
    assert await mentions(world.db, "secret of a") == {}
    assert sorted(await mentions(world.db, "(lookup,a,")) == ["ident", await _this_month(world)]
    assert await mentions(world.db, "lookup/a") == {}, "nor a key, or the id of a workflow"
    assert await mentions(world.db, "secret of b") == others
    noted = "select state, why, made_by, version > $1 from perdure.transition where id = 'a'"
    assert tuple(await world.db.fetchrow(noted, newest) or ()) == ("done", "forgotten", "the officer", True)
    assert len(before) == 2
    assert [run for run in before if await is_known(world, "lookup", "a", run)] == []
    assert len([run for run in await runs(world, "lookup") if await is_known(world, "lookup", "b", run)]) == 1

    assert await world.db.fetchval("select perdure.start('lookup', 'a', '{}')") == "finished"
    with pytest.raises(NoSuchEntity, match="the input of lookup/a is no longer on record: Give it again"):
        await world.client.restart(LookupBooking, "a", by="ann", note="")
    again = await forget(world, "lookup", "a")
    assert (again.exit_code, "0 histories in Temporal" in again.stdout) == (0, True)


async def test_it_waits_for_a_relay_that_delivers_to_the_entity(world: World) -> None:
    await finished(world.db, "a")
    [(lifecycle, entity_id)] = await world.db.fetch("select lifecycle, id from perdure.finished")
    relay = await asyncpg.connect(world.dsn)
    try:
        async with relay.transaction():
            await relay.execute(
                "select pg_advisory_xact_lock(hashtextextended($1 || '/' || $2, 1885696612))", lifecycle, entity_id
            )
            await world.db.execute("set lock_timeout = '200ms'")
            with pytest.raises(asyncpg.LockNotAvailableError):
                await world.db.execute(FORGET, lifecycle, entity_id, "the officer")
        await world.db.execute(FORGET, lifecycle, entity_id, "the officer")
    finally:
        await relay.close()
    assert await world.db.fetchval("select count(*) from perdure.finished") == 0


async def test_one_that_another_transaction_holds_is_to_be_forgotten_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world.worker(app):
        await world.client.start("lookup", "a", Booking())
        await world.ended("lookup", "a")
    monkeypatch.setattr(forgetting, "bounds", lambda **_: "set local lock_timeout = '200ms'")
    async with world.db.transaction():
        await world.db.execute("select from perdure.ident for update")
        end = await forget(world, "lookup", "a")
    assert end.exit_code == 1
    assert str(end.exception) == "another transaction holds lookup/a: try again later"


async def test_one_that_was_cut_off_before_temporal_is_finished_when_it_is_run_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world.worker(app):
        await world.client.start(Counter, AWKWARD, Count())
        await world.asked("counter", AWKWARD)
        counter = world.handle("counter", AWKWARD)
        first = (await counter.describe()).run_id
        await counter.signal("tell", "renew")
        await world.until(lambda: _other_run(world, first), "a second run")
        await counter.signal("tell", "close")
        await world.ended("counter", AWKWARD)
        second = (await counter.describe()).run_id
    await world.db.execute(FORGET, "counter", AWKWARD, "ann")
    assert [await is_known(world, "counter", AWKWARD, run) for run in (first, second)] == [True, True]
    monkeypatch.setattr(histories, "_delete", _late(histories._delete))  # as a server does that has much to do
    end = await forget(world, "counter", AWKWARD)
    assert (end.exit_code, "2 histories in Temporal" in end.stdout) == (0, True), (end.output, end.exception)
    assert [await is_known(world, "counter", AWKWARD, run) for run in (first, second)] == [False, False]


@pytest.mark.parametrize("entity_id", ["o'brien", 'a"b', "back\\slash", AWKWARD])
async def test_the_runs_of_all_generations_are_deleted_whatever_the_id(world: World, entity_id: str) -> None:
    async with world.worker(app):
        for each in (entity_id, "another"):
            await world.client.start(LookupBooking, each, Booking(what="secret"))
            await world.ended("lookup", each)
            await world.client.restart(LookupBooking, each, by="ann", note="again")
            await world.ended("lookup", each)

    async def listed() -> bool:
        return len(await runs(world, "lookup")) == 4

    await world.until(listed, "both runs of both are listed")
    all_runs = await runs(world, "lookup")
    assert (await forget(world, "lookup", entity_id)).exit_code == 0
    assert not any([await is_known(world, "lookup", entity_id, run) for run in all_runs])
    assert sum([await is_known(world, "lookup", "another", run) for run in all_runs]) == 2


async def test_what_is_left_of_a_start_that_was_dropped_is_erased(world: World) -> None:
    await world.client.start("lookup", "mrs.miller", Booking(what="secret"))
    await world.db.execute(
        """
        with gone as (delete from perdure.outbox returning *)
        insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason)
        select seq, lifecycle, id, generation, kind, body, 'a test' from gone
        """
    )
    await world.db.execute("select perdure.drop_rejected(seq, 'ann', 'mrs. miller said no') from perdure.rejected")
    assert await mentions(world.db, "mrs.miller")
    end = await forget(world, "lookup", "mrs.miller")
    assert end.exit_code == 0, end.output
    assert not await mentions(world.db, "mrs.miller")
    end = await forget(world, "lookup", "mrs.miller")
    assert (end.exit_code, "there is no lookup/mrs.miller" in str(end.exception)) == (1, True)


async def test_while_a_run_is_open_nothing_is_erased(world: World) -> None:
    async with world.worker(app):
        await world.client.start(Counter, "a", Count())
        await world.asked("counter", "a")
        await world.db.execute("update perdure.ident set final = 'closed'; delete from perdure.entity")
        before = await mentions(world.db, "counter")
        end = await forget(world, "counter", "a")
        assert (end.exit_code, "has a run that is open: wait for its end" in str(end.exception)) == (1, True)
        assert await mentions(world.db, "counter") == before
        with pytest.raises(NotNow, match="has a run that is open"):
            await delete_runs(world.temporal_client, f"{world.scope}:counter/a")
        assert await world.query("counter", "a", "counted") == 0


async def test_what_can_not_be_forgotten_is_one_line_on_standard_error(world: World) -> None:
    await still_open(world.db, "parked")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "perdure.cli", "forget", "order", "parked", "--app", APP, "--yes"),
        env=world.environment(),
        cwd=Path(__file__).parents[3],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complained = await in_time(process.communicate())
    assert (process.returncode, said) == (1, b"")
    assert (
        complained.decode()
        == "perdure: order/parked is still open: cancel it first, and wait for its end [PERDURE-2103]\n"
    )
    end = await forget(world, "order", "nobody")
    assert "there is no order/nobody" in str(end.exception)
    await world.db.execute("update perdure.database set mark = 'x', scope = ''")
    end = await forget(world, "order", "nobody")
    assert "this database works with no PERDURE_SCOPE, and here is PERDURE_SCOPE=" in str(end.exception)
    assert await world.db.fetchval("select count(*) from perdure.transition") == 2


async def test_the_database_refuses_what_must_not_be_erased(db: Connection) -> None:
    await finished(db, "a")
    await finished(db, "doubt", effect="in_doubt")
    await still_open(db, "parked")
    before = await everything(db)
    for entity_id, by, said in (
        ("parked", "ann", "order/parked is still open"),
        ("doubt", "ann", "whether 'order/doubt/ship' happened is not known"),
        ("nobody", "ann", "there is no order/nobody"),
        ("a", "", "made_by '' can not be used"),
    ):
        with pytest.raises(asyncpg.PostgresError, match=said) as refusal:
            await db.execute(FORGET, "order", entity_id, by)
        assert getattr(refusal.value, "hint", None)
        assert await everything(db) == before


async def test_while_a_month_is_exported_or_dropped_nothing_is_erased(dsn: str, db: Connection) -> None:
    await finished(db, "a")
    async with working.working(dsn):
        with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="a month is being exported or dropped"):
            await db.execute(FORGET, "order", "a", "ann")
    await db.execute(FORGET, "order", "a", "ann")
    assert await keys(db) == []


async def test_the_archives_that_hold_it_are_named_and_those_that_can_not_be_read(
    dsn: str, db: Connection, tmp_path: Path
) -> None:
    await finished(db, "a")
    await finished(db, "other")
    assert (await perdure(dsn, "archive", "export", NAME, "--to", str(tmp_path))).exit_code == 0
    held, unread = find_archives(await every_month(db), [Entity("order", "a")])
    assert [Path(path).name for path in held] == [
        f"{part}-{NAME}.parquet" for part in ("finished", "transition", "effect")
    ]
    assert unread == ()
    assert find_archives(await every_month(db), [Entity("order", "nobody")]) == ((), ())
    (tmp_path / f"effect-{NAME}.parquet").write_bytes(b"no Parquet")
    (tmp_path / f"transition-{NAME}.parquet").unlink()
    held, unread = find_archives(await every_month(db), [Entity("order", "nobody")])
    assert (held, [Path(each.split()[0]).name for each in unread]) == (
        (),
        [f"{part}-{NAME}.parquet" for part in ("transition", "effect")],
    )


async def test_an_archive_that_was_rewritten_with_other_types_is_named(
    dsn: str, db: Connection, tmp_path: Path
) -> None:
    await finished(db, "a")
    assert (await perdure(dsn, "archive", "export", NAME, "--to", str(tmp_path))).exit_code == 0
    file = tmp_path / f"finished-{NAME}.parquet"
    pq.write_table(pa.table({name: pa.array(["order"], pa.string_view()) for name in ("lifecycle", "id")}), file)
    _, unread = find_archives(await every_month(db), [Entity("order", "a")])
    [shown] = unread
    assert shown.startswith(f"{file} can't be read from here: ")
    assert "string_view" in shown


async def test_an_archive_with_a_damaged_page_is_not_taken_for_one_that_does_not_hold_it(
    dsn: str, db: Connection, tmp_path: Path
) -> None:
    for number in range(300):
        await finished(db, f"e{number:03}", effect=None)
    assert (await perdure(dsn, "archive", "export", NAME, "--to", str(tmp_path))).exit_code == 0
    file, months = tmp_path / f"finished-{NAME}.parquet", await every_month(db)
    ids, whole = pq.read_metadata(file).row_group(0).column(1), file.read_bytes()
    not_named = []
    for place in range(ids.dictionary_page_offset, ids.dictionary_page_offset + ids.total_compressed_size, 5):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        file.write_bytes(damaged)
        held, unread = find_archives(months, [Entity("order", "e150")])
        if str(file) not in held and not unread:
            not_named.append(place)
    assert not_named == []


async def test_an_archive_in_a_folder_of_another_user_is_named(dsn: str, db: Connection, tmp_path: Path) -> None:
    await finished(db, "a")
    folder = tmp_path / "of another user"
    assert (await perdure(dsn, "archive", "export", NAME, "--to", str(folder))).exit_code == 0
    months = await every_month(db)
    folder.chmod(0)
    with as_anybody():
        held, unread = find_archives(months, [Entity("order", "a")])
    folder.chmod(0o700)
    assert held == ()
    parts = ("finished", "transition", "effect")
    why = "can't be read from here: Permission denied"
    assert sorted(unread) == sorted(f"{folder / f'{part}-{NAME}.parquet'} {why}" for part in parts)


@contextmanager
def as_anybody() -> Iterator[None]:
    """As a user who is not root."""
    user = os.geteuid()
    os.seteuid(user or 65534)
    try:
        yield
    finally:
        os.seteuid(user)


async def test_files_that_an_export_left_when_it_was_cut_off_are_named_and_the_month_is_not_dropped(
    dsn: str, db: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await finished(db, "a")
    export = ("archive", "export", NAME, "--to", str(tmp_path))
    assert (await perdure(dsn, *export)).exit_code == 0
    before, _ = find_archives(await every_month(db), [Entity("order", "a")])
    write, elsewhere = exporting._write, tmp_path / "elsewhere"

    async def cut_off(connection: object, month: object, part: str, *given: object) -> object:
        if part == "transition":
            raise KeyboardInterrupt
        return await write(connection, month, part, *given)  # type: ignore[arg-type]

    with monkeypatch.context() as broken:
        broken.setattr(exporting, "_write", cut_off)
        assert (await perdure(dsn, *export[:-1], str(elsewhere))).exit_code == 130
    (half := elsewhere / f".effect-{NAME}.parquet.1.2.part").write_bytes(b"PAR1")
    await db.execute(FORGET, "order", "a", "ann")
    held, unread = find_archives(await every_month(db), [Entity("order", "a")])
    assert sorted(held) == sorted([*before, str(elsewhere / f"finished-{NAME}.parquet")])
    assert unread == (f"{half} is half written: delete it",)
    assert "2020-01 was not exported" in str((await perdure(dsn, *DROP)).exception)
    half.unlink()
    assert (await perdure(dsn, *export)).exit_code == 0
    assert find_archives(await every_month(db), [Entity("order", "a")])[1] == ()


async def test_an_export_that_has_lost_its_lock_ends_so_it_has_nothing_that_is_forgotten_meanwhile(
    dsn: str, db: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await finished(db, "a")
    write = exporting._write

    async def forgotten(connection: object, month: object, part: str, *given: object) -> object:
        if part == "transition":
            async with connected(dsn) as other:
                await other.execute(END_THE_WORK)
                await until(lambda: _forgets(other), "it is forgotten")
        return await write(connection, month, part, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(exporting, "_write", forgotten)
    end = await perdure(dsn, "archive", "export", NAME, "--to", str(tmp_path))
    assert (end.exit_code, type(end.exception)) == (1, DatabaseUnavailable)
    assert await db.fetchval("select exported_at from perdure.month") is None
    assert [path.name for path in tmp_path.iterdir()] == [f"finished-{NAME}.parquet"]


async def _forgets(db: Connection) -> bool:
    try:
        await db.execute(FORGET, "order", "a", "ann")
    except asyncpg.ObjectNotInPrerequisiteStateError:
        return False  # the lost session still ends
    return True


async def test_the_statistics_keep_no_receipt_of_an_effect_that_changed_after_the_end(db: Connection) -> None:
    await db.execute(
        "insert into perdure.transition (lifecycle, id, generation, version, state, effect) "
        "select 'order', n::text, 0, 1, 'shipped', to_jsonb('secret ' || n) from generate_series(1, 300) n; "
        "insert into perdure.carried_transition select * from perdure.transition; "
        "analyze perdure.transition; analyze perdure.carried_transition"
    )
    kept = "select count(*) from pg_stats where schemaname = 'perdure' and histogram_bounds::text like '%secret%'"
    assert await db.fetchval(kept) == 0


async def test_what_was_forgotten_since_its_export_is_not_missed_when_the_month_goes(
    dsn: str, db: Connection, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        await finished(db, name)
    assert (await perdure(dsn, "archive", "export", NAME, "--to", str(tmp_path))).exit_code == 0
    await db.execute(FORGET, "order", "a", "ann")
    await finished(db, "late")
    end = await perdure(dsn, *DROP)
    assert "has 2 rows in perdure.finished_2020_01, and 2 were exported" in str(end.exception), "one of them is late"
    await db.execute(FORGET, "order", "b", "ann")  # from a month that is detached
    assert await mentions(db, "of b") == {}
    assert (await perdure(dsn, "archive", "export", NAME, "--to", str(tmp_path))).exit_code == 0
    assert (await perdure(dsn, *DROP)).exit_code == 0


async def test_a_doubt_that_outlived_its_month_is_forgotten_once_it_is_settled(dsn: str, db: Connection) -> None:
    await finished(db, "a", effect="in_doubt")
    assert (await perdure(dsn, *DROP, "--without-export")).exit_code == 0
    await db.execute("select perdure.resolve('order', 'a', 'ship', 'done', 'ann', 'seen')")
    assert key_of("a") in str(await mentions(db, "order/a"))
    await db.execute(FORGET, "order", "a", "ann")
    assert await mentions(db, "order/a") == {}


def _late(delete: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    under_way = []

    async def in_the_background(*given: object) -> None:
        await asyncio.sleep(0.5)
        await delete(*given)

    async def asked(*given: object) -> None:
        under_way.append(asyncio.create_task(in_the_background(*given)))

    return asked


async def _lists(world: World, lifecycle: str, number: int) -> bool:
    return len(await runs(world, lifecycle)) == number


async def _other_run(world: World, run: str) -> bool:
    return (await world.handle("counter", AWKWARD).describe()).run_id != run


async def _this_month(world: World) -> str:
    return str(await world.db.fetchval("select to_char(now() at time zone 'UTC', '\"transition\"_YYYY_MM')"))
