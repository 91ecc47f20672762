"""A copy of a database sends nothing before it is claimed, and never anything of its original (invariant 11)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import asyncpg
import pytest
from temporalio.client import Client
from typer.testing import Result

from infra.clusters import base_backup, run
from perdure._reconcile.recovery.recovery import Recovered, recover
from perdure._services.ownership.claiming import What, take_over
from perdure._services.ownership.claiming import claim as adopt_here
from perdure._services.ownership.exchange import Exchange
from perdure._store.postgres import Database, PostgresStore
from perdure._wire.writes import Fence, FenceOp, Write
from perdure.errors import DatabaseUnavailable, NotThisDatabase, TemporalUnavailable
from perdure.servers.postgres import PostgresServer
from perdure.servers.postgres_user import let_in, server_account
from perdure.servers.temporal import TemporalServer
from perdure.testing.proxy import proxied
from tests.apps.bodies import app
from tests.command import APP, perdure
from tests.deadline import in_time, until
from tests.integration.services.ownership.conftest import Worlds
from tests.world import World


async def test_a_copy_that_was_made_anew_replaces_the_earlier_one(world: World) -> None:
    async with world.worker(app):  # the scope of the copies has a keeper, whose second mark cannot be a new database's
        marked = await world.db.fetchval("select mark from perdure.database")
        await world.mark_grows_old()
        await world.until(
            lambda: world.db.fetchval("select mark <> $1 from perdure.database", marked), "the mark is exchanged again"
        )
    await world.db.execute(
        "update perdure.database set scope = 'production', namespace_id = 'another', mark = 'm', "
        "system_identifier = system_identifier + 1, postmaster_started = postmaster_started - interval '1 day'"
    )
    exchange = Exchange(world.temporal_client, world.config)
    assert "are left to the original" in await adopt_here(world.db, exchange, What.COPIED, print)
    assert "nothing to do" in await adopt_here(world.db, exchange, What.COPIED, print)
    with pytest.raises(NotThisDatabase, match="another database works with this namespace and scope"):
        async with world.worker(app):
            pass
    await adopt_here(world.db, exchange, What.MOVED, print)
    await started(world, "x")
    async with world.worker(app):
        await world.is_in("repeat", "x", "done")


async def test_what_a_copy_has_put_aside_is_neither_retried_nor_cancelled_there(world: World) -> None:
    await started(world, "x")
    await world.db.execute("update perdure.database set mark = 'm', scope = 'production', namespace_id = 'another'")
    await adopt_here(world.db, Exchange(world.temporal_client, world.config), What.COPIED, print)
    seq = await world.db.fetchval("select seq from perdure.rejected")
    for act, *values in (("retry_rejected($1, 'ann')", seq), ("cancel('repeat', $1, 'ann')", "x")):
        with pytest.raises(asyncpg.PostgresError, match="repeat/x is left to the database that this one is a copy of"):
            await world.db.execute(f"select perdure.{act}", *values)
    assert await world.db.fetchval("select count(*) from perdure.outbox") == 0
    assert await world.db.fetchval("select count(*) from perdure.rejected") == 1


async def started(world: World, *ids: str, kind: str = "repeat") -> None:
    """Commit bookings."""
    for entity_id in ids:
        await world.db.execute("insert into booking (id) values ($1)", entity_id)
        await world.client.start(kind, entity_id, {})


async def begins(world: World) -> str:
    """Try to put an attempt on record in this database; why that does not go, by the database itself."""

    async def why() -> str | None:
        answer = await _begins(world)
        return None if answer.endswith("no answer") else answer

    return str(await until(why, "PostgreSQL answers"))


async def _begins(world: World) -> str:
    fence = Fence(op=FenceOp.BEGIN, key="repeat/x/do-repeat", effect="do-repeat", token="t", digest="d", in_flight=9)
    write = Write(lifecycle="repeat", id="x", generation=0, version=1, workflow_id="w", fence=fence)
    database = Database(world.dsn)
    try:
        with pytest.raises(DatabaseUnavailable) as refused:
            await PostgresStore(await database.open()).write(write, patience=0.2)
    finally:
        await database.close()
    return str(refused.value)


async def claim(world: World, what: str) -> tuple[int, str]:
    """`perdure database claim --as ... --yes`: exit status, and what it says."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "perdure.cli", "database", "claim", "--as", what, "--yes"),
        env=world.environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await in_time(process.communicate())
    assert process.returncode is not None
    return process.returncode, output.decode()


async def claimed(world: World, what: What) -> str:
    """The same in this process, where nobody is waited for as long as in production."""
    return await adopt_here(world.db, Exchange(world.temporal_client, world.config), what, lambda _: None)


async def test_a_base_backup_beside_its_original_mails_nobody_until_it_is_adopted(
    source: PostgresServer, worlds: Worlds
) -> None:
    world = await one_ended_and_one_waits(source, worlds)
    copy = worlds.running(base_backup(source, worlds.folder, "staging"))
    async with world.worker(app):  # the original goes on meanwhile
        await world.ended("repeat", "waits")
        await worlds.marked_anew(world)
    sent = world.counterparty.accepted.total()

    staging = await worlds.beside(world, copy)
    await started(staging, "new")
    assert "not verified" in await begins(staging)
    assert "its mark is not the last one" in await worlds.refused(staging)
    assert "its mark is not the last one" in await begins(staging)
    assert (await claim(staging, "copied"))[0] == 1, "it needs a scope of its own"

    own = await worlds.beside(world, copy, scope=world.scope + "x")
    assert "PERDURE_SCOPE" in await worlds.refused(own)
    status, said = await claim(own, "copied")
    assert status == 0, said
    assert "2 rows of the outbox were put aside, 2 open entities" in said
    assert (await claim(own, "copied"))[0] == 0, "twice does no harm"
    assert world.counterparty.accepted.total() == sent
    assert await recover(own.client._pool, own.temporal_client, own.scope, by="ann", why="lost") == Recovered(), (
        "none is ours"
    )
    again = "select perdure.start_again(lifecycle, id, generation, version, 'ann', 'lost') from perdure.ident"
    assert {row[0] for row in await own.db.fetch(again)} == {False}
    async with own.worker(app):
        await started(own, "newer")
        await own.ended("repeat", "newer")
    assert world.counterparty.accepted.total() == sent + 1
    for entity_id in ("waits", "new"):
        status_of = await own.client.status("repeat", entity_id)
        assert status_of.state == "starting"
        assert "belongs to the original" in str(status_of.attention)
    async with world.worker(app):
        await started(world, "after")
        await world.ended("repeat", "after")


async def test_a_worker_that_runs_while_its_database_is_stopped_sends_nothing(
    source: PostgresServer, worlds: Worlds, caplog: pytest.LogCaptureFixture
) -> None:
    world = await worlds.on(source)
    async with world.worker(app):
        await world.db.execute("update perdure.database set stopped = 'it is a copy'")
        await started(world, "a")
        refused = "relay: failed, goes on"
        await world.until(lambda: refused in caplog.messages, "the relay is refused")
        assert await world.db.fetchval("select count(*) from perdure.outbox") == 1
        await world.until(lambda: "nothing is sent from here" in caplog.messages, "the worker says so")
        await world.db.execute("update perdure.database set stopped = null")
        await world.ended("repeat", "a")


async def test_a_copy_that_was_quicker_than_the_marks_is_stopped_by_its_living_original(
    source: PostgresServer, worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within one tick both have the same mark; the original says that it lives with its next one."""
    world = await worlds.on(source)
    async with world.worker(app):
        await worlds.marked_anew(world)
        monkeypatch.setattr("perdure._services.ownership.ownership.TICK", 60)
    copy = worlds.running(base_backup(source, worlds.folder, "quick"))
    twin = await worlds.beside(world, copy)
    async with world.worker(app):
        monkeypatch.setattr("perdure._services.ownership.ownership.TICK", 0.3)
        async with twin.worker(app):  # it is taken for the original, started anew
            assert await twin.db.fetchval("select perdure.check_database()")
        async with world.worker(app):
            await worlds.marked_anew(world)
            await started(world, "a")
            await world.ended("repeat", "a")
    assert "copy of a database that lives on" in await worlds.refused(twin)


async def test_a_dump_and_a_template_copy_are_told_by_themselves(source: PostgresServer, worlds: Worlds) -> None:
    world = await one_ended_and_one_waits(source, worlds)
    dump = await dumped(world)
    await world.db.execute(f"create database {dump}_t template {dump}")
    for name in (dump, f"{dump}_t"):
        other = await worlds.beside(world, source, database=name)
        assert "is a copy of the one" in await begins(other)
        assert "is a copy of the one" in await worlds.refused(other)

    moved = await worlds.beside(world, source, database=dump)
    assert "nothing was lost" in await claimed(moved, What.MOVED)
    async with moved.worker(app):
        await moved.ended("repeat", "waits")
    assert world.counterparty.accepted.total() == 2
    assert "another database works with this" in await worlds.refused(world)


BY = ("--by", "ann", "--note", "n")
RESTART, CANCEL = ("restart", "repeat", "a", *BY), ("cancel", "repeat", "waits", *BY)
RETRY, FORGET = ("retry", "repeat", "waits", *BY), ("forget", "repeat", "a", *APP, "--by", "ann", "--yes")


async def test_nobody_acts_from_a_copy_nor_from_the_server_from_which_a_database_was_moved(
    source: PostgresServer, worlds: Worlds
) -> None:
    world = await one_ended_and_one_waits(source, worlds)
    moved = await worlds.beside(world, source, database=await dumped(world))
    for act in (RESTART, CANCEL, RETRY, FORGET, ("status",)):
        assert "is a copy of the one" in await refusal(moved, act)

    await claimed(moved, What.MOVED)
    async with moved.worker(app):
        for act in (RETRY, FORGET):
            assert "another server works with" in await refusal(world, act)
        await moved.ended("repeat", "waits")
        assert await moved.db.fetchval("select count(*) from perdure.finished where id = 'a'") == 1
        await world.handle("repeat", "a").describe()
        forgotten = await given(moved, FORGET)
    assert "1 histories in Temporal" in forgotten.stdout, forgotten.output


async def one_ended_and_one_waits(source: PostgresServer, worlds: Worlds) -> World:
    """A world in which `a` has ended, and `waits` is not delivered."""
    world = await worlds.on(source)
    async with world.worker(app):
        await started(world, "a")
        await world.ended("repeat", "a")
    await started(world, "waits")
    return world


async def given(world: World, act: tuple[str, ...]) -> Result:
    """Run the command, and again if Temporal did not answer in time: then it has done nothing."""

    async def answered() -> Result | None:
        end = await perdure(world, *act)
        return None if isinstance(end.exception, TemporalUnavailable) else end

    end: Result = await world.until(answered, f"an answer to {act[0]}")
    return end


async def refusal(world: World, act: tuple[str, ...]) -> str:
    """Run the command, which ends with 1. Returns the reason."""
    end = await given(world, act)
    assert end.exit_code == 1, end.output
    return f"{end.stderr}{end.exception}"


async def dumped(world: World) -> str:
    """Restore a dump of its database beside it. Returns the name of the copy."""
    name = world.dsn.rpartition("/")[2] + "_d"
    await world.db.execute(f"create database {name}")
    with tempfile.TemporaryDirectory() as folder:
        let_in(server_account(), Path(folder))
        run("pg_dump", "-Fc", "-f", f"{folder}/dump", world.dsn)
        run("pg_restore", "-d", world.dsn + "_d", f"{folder}/dump")
    return name


async def test_a_claim_asks_again_where_temporal_gives_no_answer_in_time_and_waits_for_the_server_before(
    source: PostgresServer, temporal: TemporalServer, worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await one_ended_and_one_waits(source, worlds)
    moved = await worlds.beside(world, source, database=await dumped(world))
    monkeypatch.setattr("perdure._wire.keeper.SILENCE", 3600)
    monkeypatch.setattr("perdure._services.ownership.claiming.SILENCE", 0)  # less than Temporal gives no answer
    reports: list[str] = []
    async with proxied(temporal.port) as proxy:

        def report(why: str) -> None:
            reports.append(why)
            proxy.delay(0)
            if why.startswith("waits"):
                monkeypatch.setattr("perdure._wire.keeper.SILENCE", 0)

        client = await Client.connect(
            f"127.0.0.1:{proxy.port}",
            namespace=world.temporal_client.namespace,
            data_converter=world.temporal_client.data_converter,
        )
        exchange = Exchange(client, world.config)
        async with exchange.answering():
            proxy.delay(6)
            assert await take_over(moved.db, exchange, "moved", report) == 0  # nothing was lost
    assert reports[0].startswith("asks again: Temporal has not answered what database this is")
    assert any("the database that this one replaces was in use a moment ago" in why for why in reports)
    async with moved.worker(app):
        await started(moved, "b")
        await moved.ended("repeat", "b")


async def test_a_dump_that_is_restored_over_its_own_database_sends_nothing(
    source: PostgresServer, worlds: Worlds
) -> None:
    world = await worlds.on(source)
    with tempfile.TemporaryDirectory() as folder:
        let_in(server_account(), Path(folder))
        async with world.worker(app):
            run("pg_dump", "-Fc", "-f", f"{folder}/dump", world.dsn)
            await worlds.marked_anew(world)
            await started(world, "a")
            await world.ended("repeat", "a")
        with suppress(subprocess.CalledProcessError):  # it can't drop the partitions' keys apart, and goes on
            run("pg_restore", "--clean", "--if-exists", "-d", world.dsn, f"{folder}/dump")
    assert "was not verified" in await begins(world)  # before any worker has asked
    assert "an older state of it or of Temporal was put back" in await worlds.refused(world)


async def test_a_table_of_marks_without_a_row_lets_nothing_be_sent(source: PostgresServer, worlds: Worlds) -> None:
    world = await worlds.on(source)
    async with world.worker(app):
        pass
    await world.db.execute("delete from perdure.database")  # as in the middle of a restore
    assert "was not verified" in await begins(world)


async def test_a_database_without_a_mark_does_not_take_the_place_of_another(
    source: PostgresServer, worlds: Worlds
) -> None:
    world = await worlds.on(source)
    async with world.worker(app):
        pass
    fresh = await worlds.on(source)
    fresh.scope, fresh.config = world.scope, fresh.config.model_copy(update={"scope": world.scope})
    assert "another database works with this namespace and scope" in await worlds.refused(fresh)
    assert not await fresh.db.fetchval("select mark from perdure.database")
