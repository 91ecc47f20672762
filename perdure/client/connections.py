"""The app's own connections of several libraries. A call on them is committed, or rolled back, with the app's row.

None of these libraries is imported here: an app that has a connection has imported its library.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar

from perdure.client.calls import Call
from perdure.errors import InvalidInput, NotConnected, NoTransaction, UnknownConnection

P = ParamSpec("P")
T = TypeVar("T")


class BlockingConnection(Protocol):
    """A blocking connection: psycopg's `Connection`, SQLAlchemy's `Connection` and `Session`, Django's
    `connection`."""

    def commit(self) -> None: ...
    def rollback(self) -> None: ...


class AwaitedConnection(Protocol):
    """An asynchronous connection: psycopg's `AsyncConnection`, SQLAlchemy's `AsyncConnection` and
    `AsyncSession`."""

    def commit(self) -> Coroutine[Any, Any, None]: ...
    def rollback(self) -> Coroutine[Any, Any, None]: ...


class AsyncpgConnection(Protocol):
    """asyncpg's connection, also one from a pool."""

    def is_in_transaction(self) -> bool: ...
    def fetchval(self, query: str, *args: Any) -> Coroutine[Any, Any, Any]: ...


AsyncConnection = AwaitedConnection | AsyncpgConnection


def carry_blocking(connection: BlockingConnection, call: Call) -> Any:
    """The result of the call in the app's transaction.

    Raises:
        NoTransaction: the connection would commit the call by itself.
        InvalidInput: an argument has a character that the connection's client encoding does not have.
        UnknownConnection: the connection is asynchronous, of an unknown library, or a session with several
            databases.
    """
    carrier = _carrier(connection)
    if carrier in _AWAITED:
        raise UnknownConnection(f"{_given(connection)}, which is awaited: use Client, in async code")
    with _encoding(call):
        return _as_text(carrier(connection, call))


async def carry_awaited(connection: AsyncConnection, call: Call) -> Any:
    """The result of the call in the app's transaction; raises as `carry_blocking`."""
    with _encoding(call):
        return _as_text(await _carrier(connection)(connection, call))


def awaited(verb: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Refuse a call of a verb of `Client` in synchronous code, which would not await the coroutine and lose the call.

    Raises:
        NotConnected: `connection` is missing, and no event loop runs.
        UnknownConnection: the connection blocks, or is of an unknown library.
    """

    @wraps(verb)
    def checked(*args: P.args, **given: P.kwargs) -> Coroutine[Any, Any, T]:
        connection = given.get("connection")
        if connection is None:
            _check_that_a_loop_runs()
        elif _carrier(connection) not in _AWAITED:
            raise UnknownConnection(f"{_given(connection)}, which blocks: use SyncClient, whose verbs are not awaited")
        return verb(*args, **given)

    return checked


def _check_that_a_loop_runs() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise NotConnected(
            "connection= is missing: in synchronous code use SyncClient and give the app's connection, with its "
            "transaction open, as in SyncClient().start(..., connection=connection); without one, await this in async "
            "code"
        ) from None


def _carrier(connection: object) -> Callable[[Any, Call], Any]:
    # By the modules of its classes, because subclasses are common: SQLModel's Session, wrappers of Django's.
    homes = {each.__module__.partition(".")[0] for each in type(connection).__mro__}
    found: Callable[[Any, Call], Any] | None = None
    if "asyncpg" in homes and hasattr(connection, "is_in_transaction"):
        found = _asyncpg
    elif "psycopg" in homes and hasattr(connection, "autocommit"):
        found = _psycopg_async if isinstance(connection, sys.modules["psycopg"].AsyncConnection) else _psycopg
    elif "sqlalchemy" in homes and hasattr(connection, "commit") and hasattr(connection, "execute"):
        waits = any(each.__module__.startswith("sqlalchemy.ext.asyncio") for each in type(connection).__mro__)
        found = _sqlalchemy_async if waits else _sqlalchemy
    elif "django" in homes and hasattr(connection, "in_atomic_block"):
        found = _django
    if found is None:
        raise UnknownConnection(
            f"{_given(connection)}: give a connection of asyncpg, psycopg 3, SQLAlchemy or Django (not a pool, an "
            "engine or a cursor), or call the SQL function perdure.start yourself"
        )
    return found


def _given(connection: object) -> str:
    return f"connection= is a {type(connection).__module__}.{type(connection).__qualname__}"


@contextmanager
def _encoding(call: Call) -> Iterator[None]:
    try:
        yield
    except UnicodeEncodeError as error:  # such as of psycopg, which then sends nothing
        character = f"U+{ord(error.object[error.start]):04X}"
        raise InvalidInput(
            f"{call}: an argument has the character {character}, and the client encoding of this connection "
            f"({error.encoding}) does not: set it to UTF8"
        ) from None


def _as_text(answer: Any) -> Any:
    """The answer as it is with any client encoding: with SQL_ASCII, psycopg gives bytes for text."""
    return answer.decode() if isinstance(answer, bytes) else answer


async def _asyncpg(connection: Any, call: Call) -> Any:
    if not connection.is_in_transaction():
        raise _alone(call, "this asyncpg connection has no transaction open", "async with connection.transaction():")
    return await connection.fetchval(call.sql("${}"), *call.values)


def _psycopg(connection: Any, call: Call) -> Any:
    with connection.pipeline() if _is_unsettled(connection) else nullcontext():
        _check_psycopg(connection, call, "with connection.transaction():")
    # A cursor of our own: the app's cursors may have other rows and placeholders.
    with sys.modules["psycopg"].Cursor(connection, row_factory=sys.modules["psycopg.rows"].tuple_row) as cursor:
        return cursor.execute(call.sql("%s"), call.values).fetchone()[0]


async def _psycopg_async(connection: Any, call: Call) -> Any:
    async with connection.pipeline() if _is_unsettled(connection) else nullcontext():
        _check_psycopg(connection, call, "async with connection.transaction():")
    tuples = sys.modules["psycopg.rows"].tuple_row
    async with sys.modules["psycopg"].AsyncCursor(connection, row_factory=tuples) as cursor:
        await cursor.execute(call.sql("%s"), call.values)
        return (await cursor.fetchone())[0]


def _is_unsettled(connection: Any) -> bool:
    """Whether a pipeline has a statement under way, so that a transaction of the app and autocommit look alike.

    A pipeline inside another waits for the queued statements, so the status is known afterwards.
    """
    pq = sys.modules["psycopg"].pq
    info = connection.info
    return connection.autocommit and bool(
        info.pipeline_status != pq.PipelineStatus.OFF and info.transaction_status == pq.TransactionStatus.ACTIVE
    )


def _check_psycopg(connection: Any, call: Call, way_out: str) -> None:
    idle = sys.modules["psycopg"].pq.TransactionStatus.IDLE
    if connection.autocommit and connection.info.transaction_status == idle:
        raise _alone(call, "this psycopg connection is in autocommit mode, with no transaction open", way_out)


def _sqlalchemy(connection: Any, call: Call) -> Any:
    if not hasattr(connection, "exec_driver_sql"):
        connection = _connection_of(connection, call)
    _check_leads_to_postgresql(connection.dialect.name, call)
    if getattr(connection.connection.dbapi_connection, "autocommit", False) is True:
        raise _alone(call, "this SQLAlchemy connection is in AUTOCOMMIT mode", "with engine.begin() as connection:")
    return connection.execute(sys.modules["sqlalchemy"].text(call.sql(":{name}")), call.arguments).scalar_one()


def _connection_of(session: Any, call: Call) -> Any:
    """The session's connection, if the session has one database for all rows.

    One that chooses the database by the row's class would choose it for the call without a class: maybe another one.
    """
    orm = sys.modules["sqlalchemy.orm"]
    if isinstance(session, orm.scoped_session):
        session = session()
    binds = getattr(session, "binds", None) or getattr(session, "_Session__binds", None)  # its name before 2.1
    if binds or type(session).get_bind is not orm.Session.get_bind:
        raise UnknownConnection(
            f"{call}: this SQLAlchemy session chooses a database for each class (`binds` or a `get_bind` of its own): "
            'give the connection of your row: connection=session.connection(bind_arguments={"mapper": YourClass}), '
            "which an AsyncSession awaits"
        )
    return session.connection()


async def _sqlalchemy_async(connection: Any, call: Call) -> Any:
    if not hasattr(connection, "run_sync"):  # an async_scoped_session
        connection = connection()
    return await connection.run_sync(_sqlalchemy, call)


def _django(connection: Any, call: Call) -> Any:
    _check_leads_to_postgresql(connection.vendor, call)
    if not connection.in_atomic_block and connection.get_autocommit():
        raise _alone(call, "this Django connection is outside of atomic()", "with transaction.atomic():")
    with connection.cursor() as cursor:
        cursor.execute(call.sql("%s"), call.values)
        return cursor.fetchone()[0]


def _check_leads_to_postgresql(vendor: str, call: Call) -> None:
    if vendor != "postgresql":
        raise UnknownConnection(f"{call}: this connection leads to {vendor}: give one to the app's PostgreSQL")


def _alone(call: Call, why: str, way_out: str) -> NoTransaction:
    return NoTransaction(
        f"{call}: {why}: it would be committed without your row, or your row without it. "
        f"Put both into one transaction: `{way_out}`"
    )


_AWAITED = (_asyncpg, _psycopg_async, _sqlalchemy_async)
