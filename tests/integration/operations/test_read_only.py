"""A server that takes no writes, such as a standby or a managed server with a full disk, is named, and waited for."""

from __future__ import annotations

import re

import pytest

from perdure._store.postgres import Database
from perdure.errors import DatabaseUnavailable
from tests.apps import failing
from tests.apps.contracts import Booking
from tests.apps.talking import Rest, app
from tests.command import perdure
from tests.integration.operations.test_doctor import doctor
from tests.world import WorkerProcess, World

pytestmark = pytest.mark.world(app)

APP = "tests.apps.talking:app"
NOTE = "--by ann --note x"
ACTS = (
    f"cancel rest open {NOTE}",
    f"restart rest over {NOTE}",
    f"recover --put-back --yes {NOTE}",
    f"forget rest over --by ann --yes --app {APP}",
    "grant {role} --as reader",
    "database claim --as restored --yes",
)
SAID = re.compile(
    r"perdure: (\w+/\w+: )?PostgreSQL takes no writes, because it is a standby or read-only "
    r"\(.*read-only.*\): set PERDURE_DATABASE_URL to the primary, or let this server "
    r"take writes \[PERDURE-3101\]\n"
)


async def takes_writes(world: World, how: str) -> None:
    """Let new sessions take writes or none, and end the others, as a restart of the server does."""
    name = world.dsn.rpartition("/")[2]
    await world.db.execute(f"alter database {name} set default_transaction_read_only = {how}")
    await world.db.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where datname = current_database() and pid <> pg_backend_pid()"
    )


async def test_a_command_that_writes_is_refused_in_one_line_that_names_the_primary(world: World, role: str) -> None:
    async with world.worker(app):
        await world.client.start(Rest, "over", Booking())
        assert await world.ended("rest", "over") == "done"
        await world.completed("rest", "over")
    await world.client.start(Rest, "open", Booking())
    await takes_writes(world, "on")
    for act in ACTS:
        if act.startswith("database claim"):
            await world.db.execute("update perdure.database set stopped = 'it is a copy'")
        end = await perdure(world, *act.format(role=role).split())
        assert end.exit_code == 1, (act, end.output, end.exception)
        text = end.stderr or f"perdure: {end.exception} [{getattr(end.exception, 'code', '')}]\n"
        assert SAID.fullmatch(text), (act, text)
    assert (await perdure(world, "list", "--json")).exit_code == 0
    with pytest.raises(DatabaseUnavailable, match="takes no writes"):
        await world.client.start(Rest, "another", Booking())


async def test_doctor_names_it(world: World) -> None:
    await takes_writes(world, "on")
    found = await doctor(world)
    assert (found.status, found.result("PostgreSQL")) == (1, "failed")
    what, mend = found.problem("PostgreSQL")
    assert what.startswith("PostgreSQL at postgresql://postgres@")
    assert (what.endswith(" is read-only"), mend) == (
        True,
        "make room if its disk is full, else set default_transaction_read_only = off",
    )


async def test_a_worker_does_not_start_and_names_it_in_one_line(world: World) -> None:
    await takes_writes(world, "on")
    process = WorkerProcess(world, APP, {})
    world.workers.append(process)
    await process.launch()
    assert await process.gone() == 1
    (said,) = [line for line in process.text().splitlines() if "perdure.store: " not in line]
    assert SAID.fullmatch(f"{said}\n"), said


@pytest.mark.world(failing.app)
async def test_a_running_worker_goes_on_when_the_server_takes_writes_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async with world.worker(failing.app):
        await world.client.start("staying", "a", Booking())
        await world.is_in("staying", "a", "in")
        await takes_writes(world, "on")
        await world.handle("staying", "a").signal("go")
        await world.until(lambda: "in a read-only transaction" in caplog.text, "a service logs it")
        await takes_writes(world, "off")
        assert await world.ended("staying", "a") == "out"
    assert "PostgreSQL refuses" not in caplog.text
    assert "a bug" not in caplog.text


async def test_a_url_whose_hosts_have_no_primary_is_one_line(world: World) -> None:
    await takes_writes(world, "on")
    with pytest.raises(DatabaseUnavailable, match="None of the hosts match") as error:
        await Database(f"{world.dsn}?target_session_attrs=read-write").open(patience=0)
    assert "\n" not in str(error.value)
