"""What is asked on the app's own connection is committed, or rolled back, with the app's row: with each library that
an app may have, as an app has it.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import closing, nullcontext, suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker

from perdure import Client, SyncClient
from perdure.client import Handle
from perdure.errors import InvalidEntity, InvalidInput, NoSuchEntity, NotConnected, NoTransaction, UnknownConnection
from perdure.servers.postgres import PostgresServer
from tests.apps.bookings import Count, Counter
from tests.connecting import AWAITED, BLOCKING

EVERY_KIND = [*BLOCKING, *AWAITED]
KINDS = [kind for kind in EVERY_KIND if kind not in ("asyncpg pool", "django's wrapper") and "scoped" not in kind]
ONE_OF_EACH = ["psycopg", "sqlalchemy async session", "django", "asyncpg"]
ROW = "insert into booking (id) values ('a')"
CLIENT = Client()
SYNC_CLIENT = SyncClient()
Verb = Callable[[Any, Any], Any]
"""What it calls: a verb of the client that it is given, on the connection."""


class Undone(Exception):
    """The app thinks better of it."""


class Order(BaseModel):
    item: str
    at: datetime


ORDER = Order(item='a "b" %s :c $1 ü', at=datetime(2026, 1, 2, 3, 4, tzinfo=UTC))


@pytest.fixture
def dsn(postgres: PostgresServer, database: str) -> str:
    return postgres.dsn(database)


@pytest.fixture
async def db(dsn: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


async def _app(kind: str, dsn: str, *verbs: Verb, alone: bool = False, undone: bool = False) -> list[Any]:
    """What the verbs answer to an app that inserts its row and then calls them on its connection."""
    if kind in AWAITED:
        return await _awaited(kind, dsn, verbs, alone, undone)
    return await asyncio.to_thread(_blocking, kind, dsn, verbs, alone, undone)


def _blocking(kind: str, dsn: str, verbs: tuple[Verb, ...], alone: bool, undone: bool) -> list[Any]:
    with BLOCKING[kind](dsn, alone) as (connection, execute):
        execute(ROW)
        answers = [verb(SYNC_CLIENT, connection) for verb in verbs]
        if undone:
            raise Undone
        return answers


async def _awaited(kind: str, dsn: str, verbs: tuple[Verb, ...], alone: bool, undone: bool) -> list[Any]:
    async with AWAITED[kind](dsn, alone) as (connection, execute):
        await execute(ROW)
        answers = [await verb(CLIENT, connection) for verb in verbs]
        if undone:
            raise Undone
        return [each.answer if isinstance(each, Handle) else each for each in answers]


def _start(client: Any, connection: Any) -> Any:
    return client.start("order", "a", ORDER, connection=connection, tenant="t", not_before=ORDER.at, priority=1)


async def _written(db: asyncpg.Connection[asyncpg.Record]) -> list[int]:
    tables = ("booking", "perdure.ident", "perdure.entity", "perdure.outbox", "perdure.message", "perdure.transition")
    return [await db.fetchval(f"select count(*) from {table}") for table in tables]


@pytest.mark.parametrize("kind", EVERY_KIND)
async def test_a_start_is_committed_with_the_row(kind: str, dsn: str, db: Any) -> None:
    assert await _app(kind, dsn, _start) == ["started"]
    stands = await db.fetchrow("select e.state, tenant, input from perdure.entity e join booking using (id)")
    assert (stands["state"], stands["tenant"], json.loads(stands["input"])) == (
        *("starting", "t"),
        ORDER.model_dump(mode="json"),
    )
    assert tuple(await db.fetchrow("select due_at, priority from perdure.outbox")) == (ORDER.at, 1)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_start_is_rolled_back_with_the_row(kind: str, dsn: str, db: Any) -> None:
    with pytest.raises(Undone):
        await _app(kind, dsn, _start, undone=True)
    assert await _written(db) == [0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("kind", EVERY_KIND)
async def test_a_connection_that_would_commit_the_start_by_itself_is_refused(kind: str, dsn: str, db: Any) -> None:
    with pytest.raises(NoTransaction, match=r"start of order/a: this \w+ connection .* into one transaction: `\w+ "):
        await _app(kind, dsn, _start, alone=True)
    assert sum((await _written(db))[1:]) == 0


@pytest.mark.parametrize("asynchronous", [False, True], ids=["blocking", "awaited"])
@pytest.mark.parametrize("alone", [True, False], ids=["autocommit", "in a transaction"])
async def test_a_pipeline_is_refused_where_it_would_commit_the_start_by_itself(
    dsn: str, db: Any, alone: bool, asynchronous: bool
) -> None:
    refused = pytest.raises(NoTransaction, match="in autocommit mode, with no transaction open")
    with refused if alone else nullcontext():
        await (_pipeline_awaited(dsn, alone) if asynchronous else asyncio.to_thread(_pipeline_blocking, dsn, alone))
    if alone:
        assert sum((await _written(db))[1:]) == 0
    else:
        assert await _written(db) == [0, 0, 0, 0, 0, 0], "it was rolled back with the row"


def _pipeline_blocking(dsn: str, alone: bool) -> None:
    with (
        psycopg.connect(dsn, autocommit=True) as connection,
        connection.pipeline(),
        nullcontext() if alone else connection.transaction(force_rollback=True),
    ):
        if alone:
            connection.execute(ROW)  # it is queued, so the connection is not idle
        assert _start(SYNC_CLIENT, connection) == "started"


async def _pipeline_awaited(dsn: str, alone: bool) -> None:
    async with (
        await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection,
        connection.pipeline(),
        nullcontext() if alone else connection.transaction(force_rollback=True),
    ):
        if alone:
            await connection.execute(ROW)
        assert (await _start(CLIENT, connection)).answer == "started"


@pytest.mark.parametrize("kind", ONE_OF_EACH)
async def test_signals_and_cancel_go_with_the_transaction(kind: str, dsn: str, db: Any) -> None:
    def signal(client: Any, connection: Any) -> Any:
        return client.signal(
            Counter, "a", Counter.tell, "go", connection=connection, message_id="m", not_before=ORDER.at
        )

    def start(client: Any, connection: Any) -> Any:
        return client.start(Counter, "a", Count(), connection=connection)

    def cancel(client: Any, connection: Any) -> Any:
        return client.cancel(Counter, "a", by="ann", note="no more", connection=connection)

    with pytest.raises(Undone):
        await _app(kind, dsn, start, signal, cancel, undone=True)
    assert await _written(db) == [0, 0, 0, 0, 0, 0]
    assert await _app(kind, dsn, start, signal, signal, cancel) == ["started", "sent", "known", "sent"]
    messages = await db.fetch("select kind, name, payload from perdure.message order by created_at")
    assert [(kind, name, json.loads(payload)) for kind, name, payload in messages] == [
        ("signal", "tell", "go"),
        ("cancel", "cancel", {"by": "ann", "note": "no more"}),
    ]


@pytest.mark.parametrize("kind", ["psycopg", "asyncpg"])
async def test_a_restart_goes_with_the_transaction(kind: str, dsn: str, db: Any) -> None:
    await db.execute("insert into perdure.ident (lifecycle, id, final) values ('order', 'a', 'sent')")

    def restart(client: Any, connection: Any) -> Any:
        return client.restart("order", "a", by="ann", note="again", given=ORDER, connection=connection)

    with pytest.raises(Undone):
        await _app(kind, dsn, restart, undone=True)
    assert await db.fetchval("select final from perdure.ident") == "sent"
    assert await _app(kind, dsn, restart) == [1]
    assert await db.fetchval("select generation from perdure.entity join perdure.ident using (id, generation)") == 1


@pytest.mark.parametrize("kind", ONE_OF_EACH)
async def test_an_error_found_beforehand_does_not_abort_the_apps_transaction(kind: str, dsn: str, db: Any) -> None:
    def wrong(client: Any, connection: Any) -> Any:
        with suppress(InvalidInput):
            return client.start("order", "a", {"item": "nul \0"}, connection=connection)

    async def wrong_awaited(client: Any, connection: Any) -> Any:
        with suppress(InvalidInput):
            return await client.start("order", "a", {"item": "nul \0"}, connection=connection)

    assert await _app(kind, dsn, wrong_awaited if kind in AWAITED else wrong) == [None]
    assert await _written(db) == [1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("kind", ONE_OF_EACH)
async def test_an_error_of_postgresql_is_the_librarys_own(kind: str, dsn: str, db: Any) -> None:
    with pytest.raises(Exception, match=r"perdure\.signal: there is no order/b") as raised:
        await _app(kind, dsn, lambda client, connection: client.signal("order", "b", "paid", connection=connection))
    assert type(raised.value).__module__.partition(".")[0] == re.findall(r"\w+", kind)[0]
    assert await _written(db) == [0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("client", [CLIENT, SYNC_CLIENT], ids=["awaited", "blocking"])
@pytest.mark.parametrize("given", ["pool", "engine", "cursor", "object"])
async def test_an_object_that_is_no_connection_is_refused_by_the_name_of_its_type(
    given: str, client: Any, dsn: str
) -> None:
    with sqlalchemy.create_engine("sqlite://").connect() as sqlite, psycopg.connect(dsn) as connection:
        made: dict[str, tuple[Any, str]] = {
            "pool": (asyncpg.create_pool(dsn), "asyncpg.pool.Pool: give a connection of"),
            "engine": (sqlite.engine, "sqlalchemy.engine.base.Engine: give a connection of"),
            "cursor": (connection.cursor(), "psycopg.Cursor: give a connection of"),
            "object": (sqlite3.Row, "builtins.type: give a connection of"),
        }
        with pytest.raises(UnknownConnection, match=f"connection= is a {made[given][1]}"):
            client.start("order", "a", ORDER, connection=made[given][0])


def test_a_connection_to_another_database_is_refused() -> None:
    with (
        sqlalchemy.create_engine("sqlite://").connect() as sqlite,
        pytest.raises(UnknownConnection, match="start of order/a: this connection leads to sqlite"),
    ):
        SYNC_CLIENT.start("order", "a", ORDER, connection=sqlite)


class Base(DeclarativeBase): ...


class Row(Base):
    __tablename__ = "booking"
    id: Mapped[str] = mapped_column(primary_key=True)


class SessionThatChooses(Session):
    """As that of Flask-SQLAlchemy. It reaches the database of the rows, and no other."""

    def get_bind(self, mapper: Any = None, **more: Any) -> Any:
        return sqlalchemy.create_engine(NOWHERE) if mapper is None else self.info["engine"]


NOWHERE = "postgresql+psycopg://127.0.0.1:1/none"
SESSIONS: dict[str, Callable[[sqlalchemy.Engine], Any]] = {
    "binds": lambda engine: Session(sqlalchemy.create_engine(NOWHERE), binds={Row: engine}),
    "binds alone": lambda engine: Session(binds={Row: engine}),
    "scoped": lambda engine: scoped_session(sessionmaker(binds={Row: engine})),
    "its own get_bind": lambda engine: SessionThatChooses(info={"engine": engine}),
}


@pytest.mark.parametrize("kind", SESSIONS)
def test_a_session_that_has_several_databases_is_refused_and_its_connection_for_the_row_is_not(
    kind: str, dsn: str
) -> None:
    engine = sqlalchemy.create_engine(dsn.replace("postgresql://", "postgresql+psycopg://"))
    with closing(SESSIONS[kind](engine)) as session:
        session.add(Row(id="a"))
        session.flush()
        with pytest.raises(UnknownConnection, match=r"start of order/a: this SQLAlchemy session chooses a database"):
            _start(SYNC_CLIENT, session)
        assert _start(SYNC_CLIENT, session.connection(bind_arguments={"mapper": Row})) == "started"
        session.commit()
    with engine.connect() as connection:
        both = sqlalchemy.text("select (select count(*) from booking), (select count(*) from perdure.ident)")
        assert connection.execute(both).one() == (1, 1)
    engine.dispose()


async def test_an_asynchronous_session_that_has_several_databases_is_refused(dsn: str) -> None:
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://"))
    async with AsyncSession(create_async_engine(NOWHERE), binds={Row: engine}) as session:
        with pytest.raises(UnknownConnection, match=r"start of order/a: this SQLAlchemy session chooses a database"):
            await _start(CLIENT, session)
        handle = await _start(CLIENT, await session.connection(bind_arguments={"mapper": Row}))
        assert handle.answer == "started"
    await engine.dispose()


VERBS: dict[str, Verb] = {
    "start": _start,
    "signal": lambda client, connection: client.signal("order", "a", "paid", connection=connection),
    "cancel": lambda client, connection: client.cancel("order", "a", by="ann", connection=connection),
    "restart": lambda client, connection: client.restart("order", "a", by="ann", note="", connection=connection),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", EVERY_KIND)
async def test_a_connection_of_the_wrong_kind_is_refused_at_the_call_which_names_the_other_client(
    kind: str, verb: str, dsn: str, db: Any
) -> None:
    def refused(client: Any, connection: Any, match: str) -> None:
        with pytest.raises(UnknownConnection, match=rf"connection= is a [\w.]+, which {match}"):
            VERBS[verb](client, connection)

    def blocking() -> None:
        with BLOCKING[kind](dsn, False) as (connection, _):
            refused(CLIENT, connection, "blocks: use SyncClient, ")

    if kind in BLOCKING:
        await asyncio.to_thread(blocking)
    else:
        async with AWAITED[kind](dsn, False) as (connection, _):
            refused(SYNC_CLIENT, connection, "is awaited: use Client, ")
    assert await _written(db) == [0, 0, 0, 0, 0, 0]


async def test_a_wrong_argument_is_refused_before_anything_is_sent(db: Any) -> None:
    async def refused(kind: type[Exception], match: str, **given: Any) -> None:
        with pytest.raises(kind, match=match):
            await CLIENT.start("order", given.pop("id", "a"), given.pop("given", {}), connection=db, **given)

    async with db.transaction():
        await refused(InvalidEntity, "the id of order is None: write the row first", id=None)
        await refused(InvalidInput, r"not_before=2026-01-02 00:00:00 has no time zone", not_before=datetime(2026, 1, 2))
        for far in (
            datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(timedelta(hours=-5))),
            datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))),
        ):
            await refused(InvalidInput, rf"not_before={re.escape(str(far))} lies outside the years", not_before=far)
        for wrong in (0, 6, True, 2.0):
            await refused(InvalidInput, f"priority={wrong}: give 1", priority=wrong)
        await refused(InvalidInput, "order/a: PostgreSQL can't store tenant: it has a character NUL", tenant="a\0")
        await refused(InvalidInput, "the input is nested 100 levels deep", given=json.loads("[" * 101 + "]" * 101))
        await refused(InvalidInput, "no JSON: Out of range float", given={"x": float("nan")})
        await refused(InvalidInput, "no JSON: .*surrogates not allowed", given=["\ud800"])
        await refused(InvalidInput, "a character NUL", given=["\\\0"])
        with pytest.raises(InvalidInput, match=r"no handler takes the signal 'tel'; did you mean 'tell'"):
            await CLIENT.signal(Counter, "a", "tel", "go", connection=db)
        with pytest.raises(InvalidInput, match="the payload of 'tell' does not fit"):
            await CLIENT.signal(Counter, "a", Counter.tell, {"no": 1}, connection=db)
        with pytest.raises(InvalidInput, match=r"is no signal handler: put @workflow\.signal on it"):
            await CLIENT.signal(Counter, "a", Counter.add, 1, connection=db)
        with pytest.raises(InvalidInput, match=r"order/a: '__temporal' can't be the name of a signal: give that of"):
            await CLIENT.signal("order", "a", "__temporal", connection=db)
        for message_id, why in (
            ("perdure-7", "message_id='perdure-7': .*: give another one"),
            ("", "message_id has 0 bytes: give 1 to 200"),
            ("ä" * 101, "message_id has 202 bytes: give 1 to 200"),
        ):
            with pytest.raises(InvalidInput, match=f"counter/a: {why}"):
                await CLIENT.signal(Counter, "a", Counter.tell, "go", connection=db, message_id=message_id)
        for by, note, why in (
            ("", "", "by has 0 characters: give 1 to 200"),
            ("ann\ud800", "", "PostgreSQL can't store by: it has a lone surrogate"),
            ("ann", "x" * 2001, "note has 2001 characters: give 0 to 2000"),
        ):
            for verb in (CLIENT.cancel, CLIENT.restart):
                with pytest.raises(InvalidInput, match=f"order/a: {why}"):
                    await verb("order", "a", by=by, note=note, connection=db)
    assert await _written(db) == [0, 0, 0, 0, 0, 0]


async def test_a_backslash_before_u0000_is_no_nul(db: Any) -> None:
    async with db.transaction():
        await CLIENT.start("order", "a", ["\\u0000"], connection=db)
    assert json.loads(await db.fetchval("select input from perdure.entity")) == ["\\u0000"]


@pytest.mark.parametrize("kind", ["psycopg", "psycopg in a block", "psycopg async"])
async def test_an_answer_is_text_also_in_the_encoding_sql_ascii(kind: str, dsn: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "SQL_ASCII")
    assert await _app(kind, dsn, _start) == ["started"]


@pytest.mark.parametrize("kind", ["psycopg", "psycopg async", "sqlalchemy"])
async def test_a_character_that_the_client_encoding_lacks_is_refused_and_the_transaction_goes_on(
    kind: str, dsn: str, db: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    refused = pytest.raises(InvalidInput, match=r"order/a: .* character U\+0436, .* \(latin-1\) does not: set it to")

    def wrong(client: Any, connection: Any) -> None:
        with refused:
            client.start("order", "a", {"item": "\u0436"}, connection=connection)

    async def wrong_awaited(client: Any, connection: Any) -> None:
        with refused:
            await client.start("order", "a", {"item": "\u0436"}, connection=connection)

    await _app(kind, dsn, wrong_awaited if kind in AWAITED else wrong, _start)
    assert (await _written(db))[:3] == [1, 1, 1]


async def test_a_method_that_needs_a_pool_raises_an_error_without_one() -> None:
    for look in (CLIENT.status("order", "a"), CLIENT.wait("order", "a"), CLIENT.list("order")):
        with pytest.raises(NotConnected, match=r"needs the app's database: make the client by .*Client\.connect"):
            await look
    with pytest.raises(NotConnected, match="this needs the app's database"):
        await CLIENT.start("order", "a", ORDER)


VERBS_WITHOUT_CONNECTION: dict[str, Callable[[], object]] = {
    "start": lambda: CLIENT.start("order", "a", ORDER),
    "signal": lambda: CLIENT.signal("order", "a", "paid"),
    "cancel": lambda: CLIENT.cancel("order", "a", by="ann"),
    "restart": lambda: CLIENT.restart("order", "a", by="ann", note="again"),
}


@pytest.mark.parametrize("verb", VERBS_WITHOUT_CONNECTION)
def test_synchronous_code_that_forgets_the_connection_gets_an_error_at_once(verb: str) -> None:
    with pytest.raises(NotConnected, match=r"connection= is missing: in synchronous code use SyncClient and give "):
        VERBS_WITHOUT_CONNECTION[verb]()


async def test_without_the_apps_connection_a_signal_goes_by_the_clients_own(dsn: str, db: Any) -> None:
    async with asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool:
        client = Client(pool)
        with pytest.raises(NoSuchEntity, match=r"there is no order/a: perdure\.start comes first"):
            await client.signal("order", "a", "paid")
        await client.start("order", "a", ORDER)
        assert await client.signal("order", "a", "paid", ORDER) == "sent"
        with pytest.raises(InvalidInput, match=r"order/b: the input has \d+ bytes, and Temporal accepts 2000000"):
            await client.start("order", "b", [secrets.token_hex(1_100_000)])
    assert await db.fetchval("select count(*) from perdure.message") == 1


def test_a_web_app_imports_no_worker_and_no_driver_but_its_own(dsn: str) -> None:
    code = (
        "import sys, psycopg, perdure\n"
        f"with psycopg.connect({dsn!r}) as connection:\n"
        "    print(perdure.SyncClient().start('order', 'a', {}, connection=connection))\n"
        "print({each.partition('.')[0] for each in sys.modules} & {'temporalio', 'asyncpg', 'sqlalchemy', 'django'})"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["started", "set()"]
