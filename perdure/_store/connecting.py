"""Opens the sessions with the app's database, with the bounds and settings on which the guarantees depend.

Worker, relay and commands all use it, for direct connections and for PgBouncer in transaction mode. Behind PgBouncer
nothing of a session outlives its transaction, so no statement is prepared by name, and each transaction sets its own
bounds.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import time
import weakref
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import asyncpg

from perdure._pulse import waits
from perdure._store.secured import connect
from perdure.logs import log_event

T = TypeVar("T")
DATABASE_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)
"""The exceptions of a statement that the server refuses, or whose server is lost or absent."""
STATEMENT_ERRORS = (
    *(asyncpg.PostgresError, asyncpg.InterfaceError),
    *(TimeoutError, ConnectionRefusedError, ConnectionResetError),
)
"""The same, without the operating system's errors that are about a file or an output as well."""
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
if TYPE_CHECKING:
    _Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]
else:
    _Connection = asyncpg.Connection

log = logging.getLogger("perdure.store")

BOUNDS = {
    # A lock of the app must delay nobody else (invariant 8).
    "lock_timeout": "250ms",
    # Less than postgres.LONGEST: the server ends a statement that stands still, and releases its locks. Otherwise it
    # would not notice for a long time that its client is gone.
    "statement_timeout": "1500ms",
    # A process that vanished or stopped in a transaction keeps its locks no longer. A relay waits
    # for Temporal in its transaction, at most 10 s for a call.
    "idle_in_transaction_session_timeout": "15s",
    # Each step of a write must see what others committed before it.
    "default_transaction_isolation": "read committed",
    # A plan that uses a node which is switched off has so high a cost that PostgreSQL would compile it: for a second or
    # more, each time.
    "jit": "off",
}
_LONG_WORK = {
    "lock_timeout": "15s",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "default_transaction_isolation": "read committed",
}
PATIENCE = 5.0
"""Seconds that a client waits for a statement: the server's bound and `_ON_THE_WAY`."""
_ON_THE_WAY = 3.5
_UNBOUNDED = 3600.0
_NAME = {"application_name": "perdure"}
_ROLLBACK = 1.0
_PATH = "select set_config('search_path', 'pg_catalog', {local})"
APPS_PATH = "select set_config('search_path', perdure.path_of_session(), true)"
"""For a transaction that runs SQL of the app: names as the app's own sessions resolve them."""
_KEEPALIVES = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}

# If a commit were not on disk before its answer, the fence could be lost (invariant 2). `remote_apply` is stronger.
_DURABLE = (
    "select set_config('synchronous_commit', 'on', {local}) "
    "where current_setting('synchronous_commit') not in ('on', 'remote_apply')"
)
# The server notices within half a minute that the client's machine is gone. No time-out of the role ends a session that
# waits for its next statement, nor a transaction that waits for Temporal. Not every server has all of these.
VIGILANT = """do $$ declare
    each record;
begin
    for each in select * from (values
        ('tcp_keepalives_idle', '10'), ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3'),
        ('tcp_user_timeout', '20000'), ('client_connection_check_interval', '5000'),
        ('transaction_timeout', '0'), ('idle_session_timeout', '0')) x (name, value)
    loop
        begin
            perform set_config(each.name, each.value, false);
        exception when others then
            null;
        end;
    end loop;
end $$"""
# By the simple protocol: until this is known, nothing may be prepared.
_HOLD = """do $$ begin
    if current_setting('lock_timeout') <> '{lock_timeout}' then
        raise exception 'the session has other bounds' using errcode = 'assert_failure';
    end if;
end $$"""
_BEGIN = "".join(f"set local {name.removeprefix('default_')} = '{value}'; " for name, value in BOUNDS.items()) + (
    _DURABLE.format(local="true")
)
_STATEMENT_TIMEOUT = re.compile(r"\bstatement_timeout = '?(\d+)(ms|s|min)?\b")
_SECONDS = {None: 0.001, "ms": 0.001, "s": 1.0, "min": 60.0}


async def open_pool(url: str, most: int, *, closed_path: bool = False, triggers: bool = False) -> Pool:
    """A pool whose sessions have `BOUNDS`. Behind a pooler without sessions, its transactions have them.

    Args:
        url: `postgresql://user:password@host:port/database`.
        most: maximum number of connections.
        closed_path: whether names are searched in `pg_catalog` alone. Otherwise a role that may create objects in a
            schema of the search path could substitute functions and operators of a statement.
        triggers: whether triggers of the app run in the sessions. Each use of a session then ends with a reset of what
            they may have set; behind a pooler nothing can do that.
    """
    opened = partial(_pool, url, most, closed_path=closed_path, triggers=triggers)
    try:
        pool = await opened(Session, server_settings=_NAME | BOUNDS)
    except asyncpg.ProtocolViolationError as error:
        if not _is_of_pooler(error):
            raise
    else:
        if await _hold(pool, BOUNDS):
            return pool
        await pool.close()
    return await opened(SessionOfPooler, server_settings=_NAME, statement_cache_size=0)


async def keeps_sessions(pool: Pool) -> bool:
    """Whether each connection of the pool has its own session of PostgreSQL, unlike behind PgBouncer in transaction
    mode."""
    async with pool.acquire(timeout=5) as connection:
        session: Any = connection
        return not session.pooled


async def connect_for_long_work(url: str, name: str, *, pooled: bool = False) -> asyncpg.Connection[asyncpg.Record]:
    """One connection for work on many rows. Its statements may take as long as they need, and wait 15 s for a lock,
    whatever the role has configured.

    Args:
        url: as for `open_pool`.
        name: the `application_name`.
        pooled: whether the URL may be a pooler's without sessions. There, each transaction has to set its bounds.
    """
    opened = partial(connect, url, timeout=10, **({"statement_cache_size": 0} if pooled else {}))
    named = {"application_name": name}
    try:
        connection: asyncpg.Connection[asyncpg.Record] = await opened(server_settings=named | _LONG_WORK)
    except asyncpg.ProtocolViolationError as error:
        if not pooled or not _is_of_pooler(error):
            raise
        connection = await opened(server_settings=named)
    try:
        _keep_alive(connection)
        if await _hold(connection, _LONG_WORK):
            await connection.execute(VIGILANT, timeout=10)
    except BaseException:
        connection.terminate()
        raise
    return connection


async def weaknesses(connection: Any) -> list[str]:
    """Reasons why this server may lose commits, as sentences; empty if it loses none."""
    found = []
    for name, what in (
        ("fsync", "a crash of its machine can lose or damage everything"),
        ("full_page_writes", "a crash of its machine can damage what was written last"),
    ):
        if await connection.fetchval(f"select current_setting('{name}')") == "off":
            found.append(f"{name}=off: {what}")
    commits = await connection.fetchval("select current_setting('synchronous_commit')")
    if commits not in ("on", "remote_apply"):
        found.append(f"synchronous_commit={commits}, and a pooler keeps it: a crash can lose what was committed last")
    return found


async def report_weaknesses(connection: Any) -> None:
    """Log in one line why this server may lose commits, if it may."""
    if found := await weaknesses(connection):
        log_event(log, "PostgreSQL may lose what it commits", level=logging.ERROR, why="; ".join(found))


class Session(_Connection):
    """Waits for an answer no longer than `PATIENCE`, or than the `statement_timeout` of its transaction. Without an
    answer the connection is dropped, with the idle ones of its pool, which may be lost in the same way.
    """

    pooled: bool = False
    """Whether a pooler assigns a session to each transaction."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._lent = False
        self.closed_path = False
        self.others: weakref.WeakSet[Session] = weakref.WeakSet()
        self._patience = PATIENCE

    def lend(self, lent: bool) -> None:
        """Record whether the connection is taken from the pool."""
        self._lent = lent

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        """See base class."""
        return await self._run(query, partial(super().execute, query, *args), timeout)

    async def fetch(self, query: str, *args: Any, timeout: float | None = None, **more: Any) -> list[Any]:
        """See base class."""
        return await self._run(query, partial(super().fetch, query, *args, **more), timeout)

    async def fetchrow(self, query: str, *args: Any, timeout: float | None = None, **more: Any) -> Any:
        """See base class."""
        return await self._run(query, partial(super().fetchrow, query, *args, **more), timeout)

    async def fetchval(self, query: str, *args: Any, column: int = 0, timeout: float | None = None) -> Any:
        """See base class."""
        return await self._run(query, partial(super().fetchval, query, *args, column=column), timeout)

    async def _run(self, query: str, statement: Callable[..., Awaitable[T]], timeout: float | None) -> T:
        return await self._answered(query, statement, timeout)

    async def _answered(self, query: str, statement: Callable[..., Awaitable[T]], timeout: float | None) -> T:
        if not self._begun():
            self._patience = PATIENCE
        if found := _STATEMENT_TIMEOUT.search(query):  # of this transaction, and its client waits as long
            bound = int(found[1]) * _SECONDS[found[2]]
            self._patience = bound + _ON_THE_WAY if bound else _UNBOUNDED
        patience = self._patience if timeout is None else timeout
        began = time.monotonic()
        waits(patience)
        try:
            return await statement(timeout=patience)
        except TimeoutError:
            self._drop(query, time.monotonic() - began)
            raise TimeoutError(f"PostgreSQL has not answered within {patience:g} s: {_shortened(query)}") from None
        except asyncpg.InternalClientError as error:
            # The connection was lost between two messages of asyncpg's protocol, and cannot be used any more.
            self.terminate()
            raise asyncpg.InterfaceError(f"the connection was lost: {error}") from error

    def _begun(self) -> bool:
        return not self.is_closed() and self.is_in_transaction()

    def _drop(self, query: str, waited: float) -> None:
        task = asyncio.current_task()
        what = "PostgreSQL does not answer: the connection is dropped"
        service = task.get_name().removeprefix("perdure ") if task else None
        about = {"service": service, "waited": f"{waited:.1f} s", "statement": _shortened(query)}
        log_event(log, what, level=logging.WARNING, **about)
        for other in [self, *(each for each in self.others if not each._lent)]:
            other.terminate()  # the pool's request to cancel the statement would wait once more


class SessionOfPooler(Session):
    """Runs each statement in a transaction with `BOUNDS`: the open one, or one of its own."""

    pooled = True

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        """See base class; `transaction()` begins and ends by it."""
        if query.startswith("BEGIN"):
            begin = partial(_Connection.execute, self, f"{query} {self._beginning}")
            return await self._answered(query, begin, timeout)
        return await super().execute(query, *args, timeout=timeout)

    @property
    def _beginning(self) -> str:
        return f"{_BEGIN}; {_PATH.format(local='true')}" if self.closed_path else _BEGIN

    async def _run(self, query: str, statement: Callable[..., Awaitable[T]], timeout: float | None) -> T:
        if self._begun():
            return await self._answered(query, statement, timeout)
        await self._answered(query, partial(_Connection.execute, self, f"begin; {self._beginning}"), timeout)
        try:
            result = await self._answered(query, statement, timeout)
            await self._answered(query, partial(_Connection.execute, self, "commit"), timeout)
        except (asyncpg.PostgresError, asyncpg.InterfaceError):
            if self._begun():
                await _Connection.execute(self, "rollback", timeout=_ROLLBACK)
            raise
        except BaseException:
            self.terminate()  # interrupted: the pooler ends the transaction with the connection
            raise
        return result


async def _pool(url: str, most: int, kind: type[Session], *, closed_path: bool, triggers: bool, **more: Any) -> Pool:
    sessions: weakref.WeakSet[Session] = weakref.WeakSet()
    # Start-up parameters cannot depend on the role's settings, nor on the platform.
    settings = f"{_DURABLE.format(local='false')}; {VIGILANT}"
    if closed_path:
        settings += f"; {_PATH.format(local='false')}"

    async def begin(session: Any) -> None:
        session.others = sessions
        session.closed_path = closed_path
        sessions.add(session)
        _keep_alive(session)
        if kind is Session:
            await session.execute(settings)

    async def reset(session: Any) -> None:
        await session.execute(f"reset session authorization; reset role; {session.get_reset_query()}; {settings}")
        await _take_back(session)

    resetting = reset if triggers and kind is Session else _take_back
    more |= {"connect": connect, "connection_class": kind, "init": begin, "setup": _lend, "reset": resetting}
    pool: Pool = await asyncpg.create_pool(url, min_size=1, max_size=most, timeout=5, **more)
    return pool


def _keep_alive(connection: Any) -> None:
    """Let the client notice within half a minute that the server's machine is gone, however long it waits."""
    wire = connection._transport.get_extra_info("socket")
    if wire is not None and wire.family in (socket.AF_INET, socket.AF_INET6):
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVES.items():
            if (option := getattr(socket, name, None)) is not None:
                wire.setsockopt(socket.IPPROTO_TCP, option, value)


def _is_of_pooler(error: asyncpg.ProtocolViolationError) -> bool:
    return "startup parameter" in str(error)


async def _hold(sessions: Any, bounds: dict[str, str]) -> bool:
    """False if a pooler is configured to ignore the bounds (ignore_startup_parameters)."""
    try:
        await sessions.execute(_HOLD.format(**bounds), timeout=10)
    except asyncpg.AssertError:
        return False
    return True


async def _lend(connection: Any) -> None:
    connection.lend(True)


async def _take_back(connection: Any) -> None:
    """Reset nothing: Perdure's code changes no settings of a session, and a reset would cost a write a round trip."""
    connection.lend(False)


def _shortened(query: str) -> str:
    return " ".join(query.split())[:80]
