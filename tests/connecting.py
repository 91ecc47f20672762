"""An app's connections to its database, one opener for each way that a library has; each by its own real library.

An opener gives a connection, inside a transaction or (`alone`) in the mode in which each statement is committed by
itself, and a function that executes a statement there, as the app would.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from typing import Any

import asyncpg
import django
import psycopg
import sqlalchemy
import sqlalchemy.orm
from django.conf import settings as django_settings
from django.db import connection as django_connection
from django.db import connections, transaction
from django.db.utils import ConnectionHandler
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine

Blocking = Callable[[str, bool], AbstractContextManager[tuple[Any, Callable[[str], object]]]]
Awaited = Callable[[str, bool], AbstractAsyncContextManager[tuple[Any, Callable[[str], Awaitable[object]]]]]

if not django_settings.configured:
    django_settings.configure(USE_TZ=True, LOGGING_CONFIG=None)
    django.setup()


@asynccontextmanager
async def with_asyncpg(dsn: str, alone: bool) -> AsyncIterator[tuple[Any, Any]]:
    connection = await asyncpg.connect(dsn)
    # As many apps have it, so that they need no json.dumps of their own.
    await connection.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
    try:
        if alone:
            yield connection, connection.execute
            return
        async with connection.transaction():
            yield connection, connection.execute
    finally:
        await connection.close()


@asynccontextmanager
async def with_asyncpg_pool(dsn: str, alone: bool) -> AsyncIterator[tuple[Any, Any]]:
    async with asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        if alone:
            yield connection, connection.execute
            return
        async with connection.transaction():
            yield connection, connection.execute


@contextmanager
def with_psycopg(dsn: str, alone: bool) -> Iterator[tuple[Any, Any]]:
    with psycopg.connect(dsn, autocommit=alone, row_factory=dict_row) as connection:
        yield connection, connection.execute


@contextmanager
def with_psycopg_in_a_block(dsn: str, alone: bool) -> Iterator[tuple[Any, Any]]:
    with psycopg.connect(dsn, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
        if alone:
            yield connection, connection.execute
            return
        with connection.transaction():
            yield connection, connection.execute


@asynccontextmanager
async def with_psycopg_async(dsn: str, alone: bool) -> AsyncIterator[tuple[Any, Any]]:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=alone) as connection:
        yield connection, connection.execute


def _url(dsn: str, driver: str) -> str:
    return dsn.replace("postgresql://", f"postgresql+{driver}://")


def _executes(connection: Any) -> Callable[[str], Any]:
    return lambda statement: connection.execute(sqlalchemy.text(statement))


@contextmanager
def _engine(dsn: str, alone: bool) -> Iterator[sqlalchemy.Engine]:
    level: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"} if alone else {}
    engine = sqlalchemy.create_engine(_url(dsn, "psycopg"), **level)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def with_sqlalchemy(dsn: str, alone: bool) -> Iterator[tuple[Any, Any]]:
    with _engine(dsn, alone) as engine, engine.begin() as connection:
        yield connection, _executes(connection)


@contextmanager
def with_sqlalchemy_session(dsn: str, alone: bool) -> Iterator[tuple[Any, Any]]:
    with (
        _engine(dsn, alone) as engine,
        sqlalchemy.orm.Session(engine) as session,
        session.begin(),
    ):
        yield session, _executes(session)


@contextmanager
def with_sqlalchemy_scoped_session(dsn: str, alone: bool) -> Iterator[tuple[Any, Any]]:
    with _engine(dsn, alone) as engine:
        sessions = sqlalchemy.orm.scoped_session(sqlalchemy.orm.sessionmaker(engine))
        with sessions.begin():
            yield sessions, _executes(sessions)
        sessions.remove()


@asynccontextmanager
async def with_sqlalchemy_async(dsn: str, alone: bool) -> AsyncIterator[tuple[Any, Any]]:
    engine = create_async_engine(_url(dsn, "asyncpg"))
    options: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"} if alone else {}
    try:
        async with engine.execution_options(**options).begin() as connection:
            yield connection, _executes(connection)
    finally:
        await engine.dispose()


@asynccontextmanager
async def with_sqlalchemy_async_session(dsn: str, alone: bool) -> AsyncIterator[tuple[Any, Any]]:
    level: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"} if alone else {}
    engine = create_async_engine(_url(dsn, "psycopg"), **level)
    try:
        async with AsyncSession(engine) as session, session.begin():
            yield session, _executes(session)
    finally:
        await engine.dispose()


@asynccontextmanager
async def with_sqlalchemy_async_scoped_session(dsn: str, alone: bool) -> AsyncIterator[tuple[Any, Any]]:
    level: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"} if alone else {}
    engine = create_async_engine(_url(dsn, "asyncpg"), **level)
    sessions = async_scoped_session(async_sessionmaker(engine), scopefunc=lambda: None)
    try:
        async with sessions.begin():
            yield sessions, _executes(sessions)
        await sessions.remove()
    finally:
        await engine.dispose()


@contextmanager
def _django(dsn: str, alone: bool) -> Iterator[tuple[Any, Any]]:
    found = sqlalchemy.engine.make_url(dsn)
    database = {"ENGINE": "django.db.backends.postgresql", "NAME": found.database, "USER": found.username}
    connections["default"] = ConnectionHandler({"default": {**database, "HOST": found.host, "PORT": found.port}})[
        "default"
    ]

    def execute(statement: str) -> None:
        with django_connection.cursor() as cursor:
            cursor.execute(statement)

    try:
        with nullcontext() if alone else transaction.atomic():
            yield django_connection, execute
    finally:
        django_connection.close()
        del connections["default"]


@contextmanager
def with_django(dsn: str, alone: bool) -> Iterator[tuple[Any, Any]]:
    with _django(dsn, alone) as given:
        yield given


@contextmanager
def with_djangos_wrapper(dsn: str, alone: bool) -> Iterator[tuple[Any, Any]]:
    with _django(dsn, alone) as (_, execute):
        yield connections["default"], execute


BLOCKING: dict[str, Blocking] = {
    "psycopg": with_psycopg,
    "psycopg in a block": with_psycopg_in_a_block,
    "sqlalchemy": with_sqlalchemy,
    "sqlalchemy session": with_sqlalchemy_session,
    "sqlalchemy scoped session": with_sqlalchemy_scoped_session,
    "django": with_django,
    "django's wrapper": with_djangos_wrapper,
}
AWAITED: dict[str, Awaited] = {
    "asyncpg": with_asyncpg,
    "asyncpg pool": with_asyncpg_pool,
    "psycopg async": with_psycopg_async,
    "sqlalchemy async": with_sqlalchemy_async,
    "sqlalchemy async session": with_sqlalchemy_async_session,
    "sqlalchemy async scoped session": with_sqlalchemy_async_scoped_session,
}
