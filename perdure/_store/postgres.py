"""Fence and mirror in PostgreSQL: the function `perdure.apply_writes`, called in batches."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import asyncpg
from temporalio.common import MetricMeter

from perdure._store.connecting import DATABASE_ERRORS, open_pool
from perdure._store.connecting import Pool as Pool
from perdure._store.group_commit import (
    MOST_BYTES,
    PER_BYTE,
    GroupCommit,
    Locked,
    ReadOnly,
    Transient,
    Unacceptable,
    Unstorable,
)
from perdure._store.schema import Connection
from perdure._store.secured import setting_of, unusable
from perdure._text.privacy import describe
from perdure._wire.writes import Answer, Write
from perdure.errors import DatabaseUnavailable, InvalidSetting, PerdureError
from perdure.logs import long_wait
from perdure.settings import without_passwords
from perdure.telemetry.metrics import measured

log = logging.getLogger("perdure.store")

LONGEST = 2.5
"""Seconds for one small commit: a dead connection is dropped while time is left for another one."""
_SLOWEST = 1e-4
_APPLY = "select * from perdure.apply_writes($1::jsonb)"
_LOCKED = ("40001", "40P01", "55P03", "57014")  # serialization failure, deadlock, lock or statement time-out
_READ_ONLY = "25006"
_UNVERIFIED = "57PE2"
_UNSTORABLE = ("22021", "22P02", "22P05", "22003", "54")
"""NUL and lone surrogates in text and JSON, a number beyond numeric, a key or value above the limits."""
_TRANSIENT_CLASSES = ("08", "53", "57", "58")  # connection, resources, operator intervention, system

# Errors that no repetition mends: another URL does, or a right.
_REFUSED = (
    asyncpg.InvalidCatalogNameError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InsufficientPrivilegeError,
)
_PARAMETER = (
    asyncpg.UndefinedObjectError,
    asyncpg.InvalidParameterValueError,
    asyncpg.CantChangeRuntimeParamError,
)


class PostgresStore:
    """Keeps fence and mirror in the schema `perdure`; see `Store`.

    Args:
        pool: connections to the app's database, from `connect`.
        meter: measures the commits.
        unverified: called when Temporal must confirm which database this is (invariant 11).
        moved: called with the name of a lifecycle when one of its entities has a new state.
    """

    def __init__(
        self,
        pool: Pool,
        meter: MetricMeter | None = None,
        unverified: Callable[[], None] | None = None,
        moved: Callable[[str], None] | None = None,
    ) -> None:
        self.pool = pool
        self._moved = moved
        self._per_byte = PER_BYTE
        self._unverified = unverified
        self._group = GroupCommit(self._commit if meter is None else measured(self._commit, meter))

    async def write(self, write: Write, *, patience: float) -> Answer:
        answer = await self._group.write(write, patience=patience)
        if self._moved is not None and write.move is not None:
            self._moved(write.lifecycle)
        return answer

    async def close(self) -> None:
        """Wait for writes under way. The pool, which belongs to the caller, stays open."""
        await self._group.close()

    async def _commit(self, batch: Sequence[str]) -> list[str | None]:
        try:
            async with self.pool.acquire(timeout=LONGEST) as connection:
                rows = await self._apply(connection, f"[{','.join(batch)}]")
        except DATABASE_ERRORS as error:
            if self._unverified is not None and getattr(error, "sqlstate", None) == _UNVERIFIED:
                self._unverified()
            raise kind_of(error) from error
        return [row[0] for row in rows]

    async def _apply(self, connection: Connection, batch: str) -> list[asyncpg.Record]:
        """Seconds for a batch: more if it is large, and much more after a time-out, because the link may be slow."""
        size, began = len(batch), time.monotonic()
        try:
            rows = await connection.fetch(_APPLY, batch, timeout=LONGEST + size * self._per_byte)
        except TimeoutError:
            self._per_byte = min(self._per_byte * 4, _SLOWEST)
            raise
        if size > MOST_BYTES // 2:
            self._per_byte = max(PER_BYTE, 2 * (time.monotonic() - began) / size)
        return rows


class Database:
    """The pool of connections to the app's database, opened when first needed.

    Args:
        url: `postgresql://user:password@host:port/database`.
        most: connections of one process at most.
        closed_path, triggers: see `open_pool`.
    """

    def __init__(self, url: str, *, most: int = 5, closed_path: bool = False, triggers: bool = False) -> None:
        self._url = url
        self._open = partial(open_pool, url, most, closed_path=closed_path, triggers=triggers)
        self._pool: Pool | None = None

    async def open(self, *, patience: float = 10.0) -> Pool:
        """Open the pool, and wait for a server that does not answer yet.

        Raises:
            DatabaseUnavailable: the server does not answer within `patience` seconds.
            InvalidSetting: the URL cannot be used.
        """
        if self._pool is None:
            with long_wait(log, "waits for PostgreSQL", at=without_passwords(self._url)):
                self._pool = await self._opened(time.monotonic() + patience)
        return self._pool

    async def _opened(self, until: float) -> Pool:
        while True:
            try:
                return await self._open()
            except _REFUSED as error:
                raise unusable(self._url, error) from error
            except _PARAMETER as error:
                why = f"{error.args[0]}: correct the parameters behind its `?`"
                raise unusable(self._url, why) from error
            except (asyncpg.PostgresError, OSError, TimeoutError) as error:
                if isinstance(error, InvalidSetting):
                    raise
                if time.monotonic() >= until:
                    raise DatabaseUnavailable(
                        f"no PostgreSQL answers at {without_passwords(self._url)} ({error}): "
                        f"start it, or set {setting_of(self._url)}"
                    ) from error
                await asyncio.sleep(0.2)

    async def close(self) -> None:
        """Close the pool; at once if the server does not answer."""
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                await asyncio.wait_for(pool.close(), 2)
            except DATABASE_ERRORS:
                pool.terminate()


def as_json(value: Any) -> str | None:
    """`value` as JSON text for a `jsonb` parameter."""
    return None if value is None else json.dumps(value)


@contextmanager
def answering(errors: tuple[type[Exception], ...] = DATABASE_ERRORS) -> Iterator[None]:
    """Convert asyncpg's exceptions about a lost, absent, overloaded or read-only server into `DatabaseUnavailable`.

    Args:
        errors: those that are about the server.
    """
    try:
        yield
    except PerdureError:  # such as an unusable file, which is an OSError as well
        raise
    except errors as error:
        if not is_of_server(error):
            raise
        if isinstance(kind := kind_of(error), ReadOnly):
            raise DatabaseUnavailable(str(kind)) from error
        raise DatabaseUnavailable(f"PostgreSQL did not answer: {kind}; try again when it is back") from error


def is_of_server(error: Exception) -> bool:
    """Whether this error of PostgreSQL means that the server is lost, absent, overloaded or read-only, so that the
    content of the statement is not its cause."""
    kind = kind_of(error)
    return isinstance(kind, Transient) and (
        not isinstance(kind, Locked) or isinstance(error, asyncpg.QueryCanceledError)
    )


def kind_of(error: Exception) -> Transient | Unacceptable:
    """The class of this error of PostgreSQL, which determines the remedy."""
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or ""
        if state == _READ_ONLY:
            what = f"PostgreSQL takes no writes, because it is a standby or read-only ({error.args[0]})"
            return ReadOnly(f"{what}: set PERDURE_DATABASE_URL to the primary, or let this server take writes")
        if state in _LOCKED:
            return Locked(describe(error))
        if state.startswith(_UNSTORABLE):
            return Unstorable(describe(error))
        if not state.startswith(_TRANSIENT_CLASSES):
            return Unacceptable(describe(error))
    return Transient(describe(error))
