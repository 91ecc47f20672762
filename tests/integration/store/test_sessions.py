"""What each session that the library opens sets: durable commits, and bounds for whatever it waits for."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from infra.pgbouncer import PgBouncer
from perdure import _pulse
from perdure._store import schema
from perdure._store.connecting import BOUNDS, Pool, connect_for_long_work, open_pool, report_weaknesses
from perdure._store.postgres import Database
from perdure.errors import InvalidSetting
from perdure.servers.postgres import PostgresServer
from perdure.testing.proxy import proxied
from tests.deadline import DEADLINE, until
from tests.integration.store.stores import a_begin, run_on

SHOWN = "select current_setting('synchronous_commit')"


@pytest.fixture
async def role(postgres: PostgresServer) -> AsyncIterator[str]:
    """A role of the test's own."""
    name = "role_" + secrets.token_hex(6)
    await run_on(postgres.dsn(), f"create role {name} superuser login")
    yield name
    await run_on(postgres.dsn(), f"drop role {name}")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("foo=bar", 'unrecognized configuration parameter "foo": correct the parameters behind its `?`'),
        ("work_mem=much", 'invalid value for parameter "work_mem": "much": correct the parameters behind its `?`'),
        ("server_version=3", 'parameter "server_version" cannot be changed: correct the parameters behind its `?`'),
    ],
)
async def test_a_parameter_of_the_url_that_the_server_refuses_is_named_at_once(
    postgres: PostgresServer, given: str, why: str
) -> None:
    with pytest.raises(InvalidSetting) as error:
        await Database(f"{postgres.dsn()}?{given}").open(patience=60)
    assert why in str(error.value)


@pytest.fixture(scope="module")
def bouncer(postgres: PostgresServer) -> Iterator[PgBouncer]:
    with PgBouncer(postgres, default_pool_size="4") as running:
        yield running


@pytest.mark.parametrize(
    ("configured", "effective"),
    [("off", "on"), ("local", "on"), ("remote_write", "on"), ("on", "on"), ("remote_apply", "remote_apply")],
)
async def test_commits_are_durable_whatever_the_role_has(
    dsn: str, postgres: PostgresServer, role: str, configured: str, effective: str
) -> None:
    await run_on(postgres.dsn(), f"alter role {role} set synchronous_commit = {configured}")
    pool = await open_pool(dsn.replace("postgres@", f"{role}@"), 2)
    try:
        assert await pool.fetchval(SHOWN) == effective
    finally:
        await pool.close()


LIMITS = {
    "statement_timeout": "1500ms",
    "lock_timeout": "250ms",
    "idle_in_transaction_session_timeout": "15s",
    "idle_session_timeout": "0",
    "transaction_timeout": "0",
}


@pytest.fixture
async def limited(dsn: str, role: str) -> str:
    """The URL of a role with limits of time that are too short for any work."""
    admin = await asyncpg.connect(dsn)
    for row in await admin.fetch("select name from pg_settings where name = any($1)", list(LIMITS)):
        await admin.execute(f"alter role {role} set {row['name']} = '1s'")
    await admin.execute(f"alter role {role} set default_transaction_isolation = 'serializable'")
    await admin.close()
    return dsn.replace("postgres@", f"{role}@")


async def limits_of(session: Any) -> dict[str, str]:
    """The limits that are effective there, of those that the server has."""
    settings = "select name, current_setting(name) as value from pg_settings where name = any($1)"
    return {row["name"]: row["value"] for row in await session.fetch(settings, list(LIMITS))}


async def test_a_session_has_its_own_limits_of_time_whatever_the_role_has(limited: str) -> None:
    pool = await open_pool(limited, 1)
    try:
        assert LIMITS | await limits_of(pool) == LIMITS
    finally:
        await pool.close()


async def test_long_work_is_not_ended_whatever_the_role_has(limited: str) -> None:
    session = await connect_for_long_work(limited, "long work")
    try:
        found = await limits_of(session)
        assert found.pop("lock_timeout") == "15s"
        assert set(found.values()) == {"0"}
        assert await session.fetchval("show transaction_isolation") == "read committed"
    finally:
        await session.close()


async def test_long_work_behind_a_pooler_changes_no_session(dsn: str, bouncer: PgBouncer) -> None:
    session = await connect_for_long_work(bouncer.dsn(dsn.rpartition("/")[2]), "long work", pooled=True)
    try:
        async with session.transaction():
            assert await session.fetchval("show client_connection_check_interval") == "0"
    finally:
        await session.close()


async def test_commits_are_durable_behind_a_pooler(dsn: str, bouncer: PgBouncer) -> None:
    name = dsn.rpartition("/")[2]
    await run_on(dsn, f"alter database {name} set synchronous_commit = off")
    pool = await open_pool(bouncer.dsn(name), 2)
    try:
        assert await pool.fetchval(SHOWN) == "on"
        async with pool.acquire() as connection, connection.transaction():
            assert await connection.fetchval(SHOWN) == "on"
    finally:
        await pool.close()
        await run_on(dsn, f"alter database {name} reset synchronous_commit")


@pytest.mark.parametrize("pooled", [False, True], ids=["directly", "behind a pooler"])
async def test_no_statement_is_compiled_where_postgresql_has_its_defaults(
    dsn: str, bouncer: PgBouncer, pooled: bool
) -> None:
    name = dsn.rpartition("/")[2]
    await run_on(dsn, f"alter database {name} set jit = on")  # this server has it off
    pool = await open_pool(bouncer.dsn(name) if pooled else dsn, 2)
    try:
        assert await pool.fetchval("select current_setting('jit')") == "off"
    finally:
        await pool.close()
        await run_on(dsn, f"alter database {name} reset jit")


@pytest.fixture
def crashing() -> Iterator[PostgresServer]:
    """A server of the test's own, that puts asynchronous commits on disk 10 s later."""
    with PostgresServer(durable=False) as server:
        asyncio.run(run_on(server.dsn(), "alter system set wal_writer_delay = '10s'"))
        server.restart()
        yield server


async def test_an_attempt_on_record_survives_the_crash_of_a_backend_whatever_the_session_has(
    crashing: PostgresServer,
) -> None:
    connection, beside = await asyncpg.connect(crashing.dsn()), await asyncpg.connect(crashing.dsn())
    await schema.migrate(connection)
    await connection.execute("checkpoint; set synchronous_commit = off")
    batch = f"[{a_begin('a', 1).model_dump_json(exclude_none=True)}]"
    await connection.execute("create table lost (n int)")
    await connection.fetch("select * from perdure.apply_writes($1)", batch)
    await connection.execute("insert into lost values (1)")
    os.kill(connection.get_server_pid(), signal.SIGKILL)  # as the out-of-memory killer does
    again: asyncpg.Connection[asyncpg.Record] | None = None

    async def back() -> bool:
        nonlocal again
        if not beside.is_closed():  # the postmaster ends everybody's session, and recovers
            return False
        try:
            again = await asyncpg.connect(crashing.dsn(), timeout=5)
        except (OSError, asyncpg.PostgresError):
            return False
        return True

    await until(back, "PostgreSQL has recovered")
    assert again is not None
    assert await again.fetchval("select count(*) from lost") == 0, "the crash lost what was not on disk"
    assert await again.fetchval("select status from perdure.effect") == "attempting"
    await again.close()
    connection.terminate()


async def test_a_server_that_may_lose_commits_is_reported_in_one_line(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    pool = await open_pool(dsn, 1)
    with caplog.at_level(logging.ERROR, "perdure.store"):
        await report_weaknesses(pool)
    await pool.close()
    (line,) = caplog.records
    assert line.message == "PostgreSQL may lose what it commits"
    assert getattr(line, "perdure") == {  # noqa: B009
        "why": "fsync=off: a crash of its machine can lose or damage everything; "
        "full_page_writes=off: a crash of its machine can damage what was written last"
    }


async def test_a_connection_that_is_lost_in_silence_is_dropped_with_the_idle_ones_beside_it(
    dsn: str, postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with proxied(postgres.port) as proxy:
        pool = await open_pool(dsn.replace(str(postgres.port), str(proxy.port)), 3)
        await asyncio.gather(*(pool.fetchval("select pg_sleep(0.1)") for _ in range(3)))
        assert proxy.accepted == 3
        proxy.freeze()
        asking = asyncio.create_task(pool.fetchval("select  'a' ||\n 'b'"), name="perdure gauges")
        with caplog.at_level(logging.WARNING, "perdure.store"), pytest.raises(TimeoutError, match="within 5 s: select"):
            await asking
        (line,) = caplog.records
        about = getattr(line, "perdure")  # noqa: B009
        assert (about["service"], about["statement"]) == ("gauges", "select 'a' || 'b'")
        assert 4.9 < float(about["waited"].removesuffix(" s")) < DEADLINE
        async with asyncio.timeout(DEADLINE):  # no other statement meets a connection that is lost
            found = await asyncio.gather(*(pool.fetchval("select pg_sleep(0.1), 1") for _ in range(3)))
        assert len(found) == 3
        await pool.close()


async def test_a_transaction_that_may_take_longer_is_waited_for_longer(dsn: str) -> None:
    pool: Pool = await open_pool(dsn, 1)
    async with pool.acquire() as connection:
        async with connection.transaction():
            await connection.execute("set local statement_timeout = '20s'")
            await connection.execute("select pg_sleep(5.2)")
        with pytest.raises(asyncpg.QueryCanceledError):
            await connection.execute("select pg_sleep(5)")
    await pool.close()


async def test_whoever_stands_still_in_a_transaction_keeps_its_locks_for_seconds_only(
    dsn: str, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BOUNDS, "idle_in_transaction_session_timeout", "2s")
    async with proxied(postgres.port) as proxy:
        pool = await open_pool(dsn.replace(str(postgres.port), str(proxy.port)), 1)
        connection = await pool.acquire()
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("select pg_advisory_xact_lock(7)")
        proxy.freeze()  # never cut, never thawed
        waiting = await asyncpg.connect(dsn)
        await asyncio.wait_for(waiting.execute("select pg_advisory_lock(7)"), DEADLINE)
        await waiting.close()
        pool.terminate()


async def test_a_connection_that_asyncpg_lost_between_two_messages_is_closed_and_the_pool_makes_another(
    dsn: str,
) -> None:
    pool = await open_pool(dsn, 1)
    async with pool.acquire() as lent:
        session = lent._con  # type: ignore[attr-defined]

        async def lost(*args: object, **more: object) -> None:
            raise asyncpg.InternalClientError("cannot switch to state 11; another operation (2) is in progress")

        session._execute = lost
        with pytest.raises(asyncpg.InterfaceError, match="the connection was lost: cannot switch to state 11"):
            await lent.fetchrow("select 1")
        assert session.is_closed()
    assert await pool.fetchval("select 2") == 2
    await pool.close()


async def test_a_service_that_waits_for_a_statement_within_its_time_out_is_no_hang(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_pulse, "WITHIN", 0.0)  # nothing but the statement's own time-out keeps it from being a hang
    pulse, pool = _pulse.Pulse("patient"), await open_pool(dsn, 1)

    async def wait() -> None:
        _pulse.follow(pulse)
        pulse.beat()
        await pool.execute("select pg_sleep(0.5)")

    waiting = asyncio.create_task(wait())
    sleeps = "select exists (select from pg_stat_activity where query like 'select pg_sleep(0.5%')"
    other = await asyncpg.connect(dsn)
    try:
        await until(lambda: other.fetchval(sleeps), "the statement runs")
        assert pulse.hung is None
        await waiting
    finally:
        await other.close()
        await pool.close()
