"""Of a person who is forgotten no table, history, file, trace, metric or log holds anything but what is named."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from typer.testing import CliRunner

from perdure import Entity
from perdure._retention.erasure_plan import Rows
from perdure.cli import cli
from perdure.contracts import Erasure
from perdure.errors import DeclarationError, NotPermitted
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.apps.visits import TABLES, Booked, Visit, app
from tests.collector import Collector, collecting
from tests.erasing import forget, in_history, places
from tests.world import World

APP = "tests.apps.visits:app"


@pytest.fixture
def mark() -> str:
    """What a person is called, and nobody else."""
    return f"Mark3d{secrets.token_hex(6)}"


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Where traces and metrics go."""
    with collecting() as made:
        yield made


@pytest.fixture
async def world(
    postgres: PostgresServer, temporal: TemporalServer, database: str, tmp_path: Path
) -> AsyncIterator[World]:
    """With the tables of visits."""
    connection = await asyncpg.connect(postgres.dsn(database))
    await connection.execute(TABLES)
    await connection.close()
    async with World(postgres, temporal, database, tmp_path).made(app) as made:
        yield made


async def visited(world: World, mark: str, letters: int) -> None:
    """A visit of a person, with letters, through each way in which text of it comes onto record."""
    await world.db.execute("insert into visit (id, name) values (7, $1), (8, 'nobody')", mark)
    await world.db.execute("insert into visit_letter values ('of-8', 8, 'nowhere')")
    for number in range(letters):
        await world.db.execute("insert into visit_letter values ($1, 7, $2)", f"l{number}", mark)
        await world.client.start("letter", f"l{number}", {"name": mark}, tenant=mark)
    await world.client.start(Visit, "7", Booked(name=mark), tenant=mark)
    await world.client.start(Visit, "8", Booked(name="nobody"))
    await world.client.signal("visit", "7", "remark", mark)
    await world.is_in("visit", "7", "registered")
    await world.client.signal("visit", "7", "remark", "over")
    await world.client.signal("visit", "8", "remark", "over")
    assert [await world.ended("visit", each) for each in ("7", "8")] == ["over", "over"]
    await world.client.restart("visit", "7", by="ann", note=mark)
    await world.is_in("visit", "7", "registered")
    await world.client.cancel("visit", "7", by="ann", note=mark)
    assert await world.ended("visit", "7") == "absent"
    assert {await world.ended("letter", f"l{number}") for number in range(letters)} <= {"over"}
    for lifecycle, id in [("visit", "7"), ("visit", "8"), *(("letter", f"l{n}") for n in range(letters))]:
        await world.completed(lifecycle, id)


async def test_of_a_person_nothing_is_left_but_where_it_is_named(world: World, mark: str, collector: Collector) -> None:
    telemetry = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "OTEL_METRIC_EXPORT_INTERVAL": "200",
        "PERDURE_TRACES": "otlp",
        "PERDURE_METRICS": "otlp",
        "PERDURE_LOG_LEVEL": "debug",
    }
    worker = await world.spawn(APP, **telemetry)
    await visited(world, mark, letters=3)
    assert await worker.stop() == 0
    await world.db.execute(
        "insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason) "
        "select n, 'visit', '7', 0, 'message', jsonb_build_object('x', $1::text), $1 from generate_series(1, 2) n",
        mark,
    )
    await world.db.execute(
        "insert into perdure.finding (kind, lifecycle, id, what, run) values ('k', 'visit', '7', $1, 1)", mark
    )
    await world.db.execute("analyze")
    planted = await places(world, mark, collector)
    month = await world.db.fetchval("select to_char(now() at time zone 'UTC', 'YYYY_MM')")
    assert planted >= {
        *("visit", "visit_letter", "perdure.effect", "perdure.rejected", "perdure.finding"),
        *(f"perdure.finished_{month}", f"perdure.transition_{month}", "perdure.ident", "pg_statistic"),
        *("visit/7", "letter/l0", "letter/l1", "letter/l2"),
    }

    status, told = await forget(world, "visit", "7", "--app", APP)
    assert status == 0, told
    assert "forgot visit/7 and what belongs to it (3 of letter)" in told
    assert "5 histories in Temporal" in told
    assert "the app's rows: 3 of visit_letter\n" in told
    assert "the app's rows: 1 of visit\n" in told
    assert "not reached: the register keeps its entry: ask the registrar\n" in told
    assert "not reached: the app's own data: the lifecycle 'letter' declares no `erasure`.\n" in told
    await world.db.execute("vacuum analyze")
    assert await places(world, mark, collector) == set()
    assert mark not in told
    assert tuple(await world.db.fetchrow("select name, state from visit where id = 7") or ()) == (None, "absent")
    assert await world.db.fetchval("select count(*) from perdure.finished where id = '8'") == 1
    assert await in_history(world, f"{world.scope}:visit/8", None, "nobody")

    again, told = await forget(world, "visit", "7", "--app", APP)
    assert (again, "forgot visit/7: " in told, "0 histories" in told) == (0, True, True), told


async def test_an_erasure_that_cannot_be_done_now_is_refused_before_anything_is_erased(world: World, mark: str) -> None:
    async with world.worker(app):
        await world.db.execute("insert into visit (id, name) values (7, $1)", mark)
        await world.db.execute("insert into visit_letter values ('l', 7, $1), ('m', 7, $1)", mark)
        for id in ("l", "m"):
            await world.client.start("letter", id, {"name": mark})
            assert await world.ended("letter", id) == "over"
            await world.completed("letter", id)
        await world.client.start(Visit, "7", Booked(name=mark))
        await world.is_in("visit", "7", "registered")
        planted = await places(world, mark)
        refusals = [(await forget(world, "visit", "7", "--app", APP), 1, "visit/7 is still open (1 of 3 entities")]
        await world.client.cancel("visit", "7", by="ann", note="")
        await world.ended("visit", "7")
        await world.completed("visit", "7")
        await world.db.execute("update perdure.effect set status = 'in_doubt' where id = 'm'")
        in_doubt = "whether 'letter/m/register-visit' happened"
        refusals.append((await forget(world, "visit", "7", "--app", APP), 1, in_doubt))
        await world.db.execute("update perdure.effect set status = 'done' where id = 'm'")
        await world.db.execute("alter table visit rename column name to called")
        refusals.append((await forget(world, "visit", "7", "--app", APP), 2, "erasure.rows['visit'] can't be run: "))
        await world.db.execute("alter table visit rename column called to name")
        for (status, told), expected, reason in refusals:
            assert (status, reason in told, len(told.splitlines())) == (expected, True, 1), told
        assert planted - {"perdure.entity"} <= await places(world, mark)
    assert (await forget(world, "visit", "7", "--app", APP))[0] == 0


async def test_the_statements_of_the_app_run_with_the_rights_of_a_role_of_their_own(world: World, mark: str) -> None:
    async with world.worker(app):
        await world.db.execute("insert into visit (id, name) values (7, $1)", mark)
        await world.client.start(Visit, "7", Booked(name=mark))
        await world.is_in("visit", "7", "registered")
        await world.client.cancel("visit", "7", by="ann", note="")
        await world.ended("visit", "7")
        await world.completed("visit", "7")
    role = f"eraser_{secrets.token_hex(4)}"
    await world.db.execute(
        f"create role {role} login; grant select, update on visit to {role}; grant select on visit_letter to {role};"
        "create function taken() returns trigger language plpgsql as "
        "$$ begin new.state := current_user || ' ' || session_user; return new; end $$;"
        "create trigger taken before update of name on visit for each row execute function taken()"
    )
    try:
        told = {"PERDURE_ERASURE_DATABASE_URL": world.dsn.replace("postgres@", f"{role}@")}
        status, said = await forget(world, "visit", "7", "--app", APP, **told)
        assert (status, "erasure.rows['visit_letter'] can't be run: InsufficientPrivilegeError" in said) == (1, True), (
            said
        )
        assert await world.db.fetchval("select count(*) from perdure.finished where id = '7'") == 1
        await world.db.execute(f"grant delete on visit_letter to {role}")
        status, said = await forget(world, "visit", "7", "--app", APP, **told)
        assert status == 0, said
        assert await world.db.fetchval("select state from visit") == f"{role} {role}"
    finally:
        await world.db.execute(f"drop owned by {role}; drop role {role}")


@pytest.fixture
async def eraser(world: World) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A session of a role that may change visits and letters, where one person has one of each."""
    await world.db.execute(
        "insert into visit (id, name) values (7, 'Ann'); insert into visit_letter values ('l', 7, 'Ann')"
    )
    role = f"eraser_{secrets.token_hex(4)}"
    await world.db.execute(f"create role {role}; grant select, update, delete on visit, visit_letter to {role}")
    connection = await asyncpg.connect(world.dsn)
    try:
        await connection.execute(f"set role {role}")
        yield connection
    finally:
        await connection.close()
        await world.db.execute(f"drop owned by {role}; drop role {role}")


SECURED = "alter table visit_letter enable row level security"
ALL_SHOWN = "create policy shown on visit_letter using (true)"


@pytest.mark.parametrize(
    "policies",
    [
        "create policy tenants on visit_letter using (address = 'Bob')",
        f"{ALL_SHOWN}; create policy tenants on visit_letter as restrictive using (address = 'Bob')",
        "create policy shown on visit_letter for select using (true)",
    ],
)
async def test_rows_that_row_level_security_hides_are_not_called_erased(
    world: World, eraser: asyncpg.Connection[asyncpg.Record], policies: str
) -> None:
    await world.db.execute(f"{SECURED}; {policies}")
    with pytest.raises(NotPermitted, match=r"visit: .* row-level security of visit_letter may hide rows .* BYPASSRLS"):
        await Rows(eraser, app).erasure_plan(Entity("visit", "7"))


async def test_entities_that_row_level_security_hides_are_not_called_erased(
    world: World, eraser: asyncpg.Connection[asyncpg.Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = "select 'letter' as lifecycle, id from visit_letter where visit = $1"
    monkeypatch.setattr(app.lifecycles["visit"], "erasure", Erasure(entities=letters))
    await world.db.execute(f"{SECURED}; create policy tenants on visit_letter using (address = 'Bob')")
    with pytest.raises(NotPermitted, match="row-level security of visit_letter may hide rows"):
        await Rows(eraser, app).erasure_plan(Entity("visit", "7"))


async def test_a_role_from_which_policies_hide_no_row_erases_them(
    world: World, eraser: asyncpg.Connection[asyncpg.Record]
) -> None:
    await world.db.execute(f"{SECURED}; {ALL_SHOWN}")
    rows = Rows(eraser, app)
    plan = await rows.erasure_plan(Entity("visit", "7"))
    assert plan.entities == (Entity("letter", "l"), Entity("visit", "7"))
    assert await rows.erase(plan.entities[-1]) == {"visit_letter": 1, "visit": 1}


async def test_the_rows_of_another_database_are_not_erased(world: World, mark: str) -> None:
    async with world.worker(app):
        await world.db.execute("insert into visit (id, name) values (7, $1)", mark)
        await world.client.start(Visit, "7", Booked(name=mark))
        await world.is_in("visit", "7", "registered")
        await world.client.cancel("visit", "7", by="ann", note="")
        await world.ended("visit", "7")
        await world.completed("visit", "7")
    name = f"other_{secrets.token_hex(4)}"
    await world.db.execute(f"create database {name}")
    other = await asyncpg.connect(world.postgres.dsn(name))
    try:
        await other.execute(f"{TABLES}; insert into visit (id, name) values (7, 'another person')")
        told = {"PERDURE_ERASURE_DATABASE_URL": world.postgres.dsn(name)}
        status, said = await forget(world, "visit", "7", "--app", APP, **told)
        assert (status, "PERDURE_ERASURE_DATABASE_URL leads to another database" in said) == (1, True), said
        assert await other.fetchval("select name from visit") == "another person"
        assert await world.db.fetchval("select count(*) from perdure.finished where id = '7'") == 1
    finally:
        await other.close()
        await world.db.execute(f"drop database {name} with (force)")


async def test_an_erasure_that_was_cut_off_is_finished_by_the_next_one(
    world: World, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world.worker(app):
        await visited(world, mark, letters=3)
    erase = Rows.erase
    arguments = ["forget", "visit", "7", "--app", APP, "--by", "officer", "--yes"]
    for cut_at in (1, 3, 4):
        left = iter(range(cut_at - 1))

        async def cut_off(self: Rows, entity: Entity, left: Iterator[int] = left) -> Mapping[str, int]:
            if next(left, None) is None:
                raise KeyboardInterrupt
            return await erase(self, entity)

        with monkeypatch.context() as broken:
            broken.setattr(Rows, "erase", cut_off)
            end = await asyncio.to_thread(CliRunner().invoke, cli, arguments, env=world.environment())
        assert end.exit_code == 130, (end.output, end.exception)
    assert (await forget(world, "visit", "7", "--app", APP))[0] == 0
    await world.db.execute("vacuum analyze")
    assert await places(world, mark) == set()


async def test_a_row_without_an_id_names_no_entity(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.db.execute("insert into visit (id) values (7)")
    letters = "select 'letter' as lifecycle, l.id from visit v left join visit_letter l on l.visit = v.id "
    letters += "where v.id = $1"
    monkeypatch.setattr(app.lifecycles["visit"], "erasure", Erasure(entities=letters))
    with pytest.raises(DeclarationError, match="returns a row whose lifecycle or id is null"):
        await Rows(world.db, app).erasure_plan(Entity("visit", "7"))


async def test_entities_of_unknown_lifecycles_are_erased_here_and_named(world: World, mark: str) -> None:
    async with world.worker(app):
        await world.client.start("letter", "l", {"name": mark})
        await world.ended("letter", "l")
        await world.completed("letter", "l")
    status, told = await forget(world, "letter", "l", "--app", "workers.mail.app:app")
    assert (status, "the App has no lifecycle 'letter'" in told) == (1, True), told
    await world.db.execute("vacuum analyze")
    assert await places(world, mark) == set()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rows": {"visit": "delete from visit"}}, r"rows\['visit'\] is 'delete from visit': it needs \$1"),
        ({"entities": "select 1"}, "entities is 'select 1': it needs"),
        ({"elsewhere": "the register"}, "is one text: give a list"),
        ({"elsewhere": ["the register", " "]}, "has an empty line"),
    ],
)
def test_a_declaration_that_can_not_work_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        Erasure(**given)
