"""`Client`: the verbs of an app and of an operator: start, signal, look, wait, settle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from perdure.client.calls import entity_of
from perdure.client.naming import name_of
from perdure.client.records import EntityStatus
from perdure.client.transactional import Transactional
from perdure.contracts.keys import id_text
from perdure.errors import DatabaseUnavailable, NotConnected, NotThisDatabase

if TYPE_CHECKING:  # a web app that only starts needs none of these
    import temporalio.client

    from perdure._store.postgres import Pool
    from perdure._wire.requests import OperatorRequest
    from perdure.app import App
    from perdure.client.naming import Which
    from perdure.client.records import Event
    from perdure.contracts.outcomes import EffectStatus
    from perdure.settings import Settings


class Client(Transactional):
    """Works with lifecycles. Without anything given it starts, signals, cancels and restarts in connections of the
    app's; `Client.connect` has connections of its own, and can look and wait as well.

    `connection=` of `start`, `signal`, `cancel` and `restart` is the app's own, with its transaction open: of
    asyncpg, psycopg 3, SQLAlchemy (a Session, too) or Django. What was asked is then committed, or rolled back,
    with the app's row. A blocking connection's verb returns its result at once, every other one's is awaited.
    Errors of PostgreSQL are then raised as that library has them.

    Args:
        pool: asyncpg pool of the app's database.
        temporal_client: Temporal client with `pydantic_data_converter`; not needed to start and look. Where there are
            keys it encrypts, unless it has a codec of its own.
        config: scope and task queue; from the environment where not given.
        app: checks names and inputs of lifecycles that are given by name.
        patience: how long a workflow's answer is waited for; None = 20 s.

    Example:
        >>> import asyncio
        >>> from perdure import Client, Entity
        >>> async def main() -> None:
        ...     async with Client.connect() as client:  # the database that PERDURE_DATABASE_URL names
        ...         await client.start("ticket", "17", "printer on fire")
        ...         status = await client.status("ticket", "17")
        ...         print(status.state, status.final)
        >>> asyncio.run(main())
        starting False
    """

    def __init__(
        self,
        pool: Pool | None = None,
        temporal_client: temporalio.client.Client | None = None,
        *,
        config: Settings | None = None,
        app: App | None = None,
        patience: timedelta | None = None,
    ) -> None:
        self._given_pool = pool
        self._temporal_client = temporal_client
        self._config = config
        self._app = app
        self._patience = patience

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        config: Settings | None = None,
        *,
        temporal_client: temporalio.client.Client | None = None,
        app: App | None = None,
    ) -> AsyncIterator[Client]:
        """A client with connections of its own, for as long as the context lasts.

        Raises:
            DatabaseUnavailable: no PostgreSQL answers.
            SchemaMismatch: its schema is missing, too old or too new.
        """
        from perdure._store import schema
        from perdure._store.postgres import Database
        from perdure.settings import settings

        config = config or settings()
        database = Database(config.database_url, most=config.connections)
        pool = await database.open()
        try:
            async with pool.acquire() as connection:
                await schema.check(connection)
            yield cls(pool, temporal_client, config=config, app=app)
        finally:
            await database.close()

    async def status(self, lifecycle: Which, entity_id: object) -> EntityStatus:
        """Where an entity is.

        Raises:
            InvalidEntity: the id can't be used.
            NoSuchEntity: the database knows none of that id.
            DatabaseUnavailable: no answer.
        """
        from perdure.client.reading import read_status

        name = name_of(lifecycle)
        text = id_text(name, entity_id)
        return await read_status(self._pool, name, text)

    async def wait(self, lifecycle: Which, entity_id: object, *, timeout: timedelta | None = None) -> EntityStatus:
        """Wait until an entity is in a final state. Looks into the mirror, so it works without Temporal too.

        Raises:
            InvalidEntity: the id can't be used.
            NoSuchEntity: the database knows none of that id.
            TimeoutError: it is not final after `timeout`.
        """
        until = None if timeout is None else time.monotonic() + timeout.total_seconds()
        pause, seen = 0.02, "not known"
        while True:
            try:
                found = await self.status(lifecycle, entity_id)
                seen = repr(found.state)
                if found.final:
                    return found
            except DatabaseUnavailable as error:  # whoever waits for days waits for a restarted server, too
                seen = str(error)
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"{name_of(lifecycle)}/{entity_id} is not final after {timeout}: {seen}")
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 1.0)

    async def list(
        self,
        lifecycle: Which,
        *,
        state: str | None = None,
        attention: bool = False,
        before: datetime | None = None,
        limit: int = 100,
    ) -> list[EntityStatus]:
        """Open entities of a lifecycle, the longest in its state first.

        Args:
            state: only those in it.
            attention: only those that want a person.
            before: only those that are in their state since before then.
            limit: at most so many.
        """
        from perdure.client.reading import read_open

        return await read_open(self._pool, name_of(lifecycle), state, attention, before, limit)

    async def feed(self, after: str | None = None, *, wait: bool = True) -> AsyncGenerator[Event, None]:
        """Every transition of every lifecycle, each entity's in order, as they are committed; none is missed.

        Whoever dies between dealing with an event and remembering its position sees it again: the same `lifecycle`,
        `id`, `version` and `at`.

        Args:
            after: the `position` of the last event that was dealt with; None = from the beginning.
            wait: whether to go on waiting for more, through restarts of the database, or to end at the newest.

        Raises:
            InvalidPosition: the position is malformed, or does not hold here, as in a restored database.
            DatabaseUnavailable: no answer, where `wait` is False.
        """
        from perdure.client.feed import follow

        async for event in follow(self._pool, after, wait=wait):
            yield event

    async def feed_position(self, since: datetime | None = None) -> str:
        """A position for `feed`: its end, so that only what comes now is seen; or before all that is as old as `since`.

        Raises:
            DatabaseUnavailable: no answer.
        """
        from perdure.client.feed import position

        return await position(self._pool, since)

    async def resolve(
        self,
        lifecycle: Which,
        entity_id: object,
        outcome: EffectStatus,
        *,
        by: str,
        note: str,
        receipt: Any = None,
        effect: str | None = None,
    ) -> str:
        """Say what became of an effect in doubt; see `Resolution`. Returns what came of that.

        Works for an entity that ended with the doubt open (expired, cancelled), too.

        Raises:
            NotThisDatabase: the client's scope is not that of its database; nobody was asked.
            DatabaseUnavailable: no PostgreSQL answers.
            NotNow: nothing is parked, or the receipt does not fit; the message says which.
            NoWorkflow: no workflow of it is open in Temporal.
            AlreadyFinished: it came too late.
            TemporalUnavailable: no Temporal server answered, or no worker; whether it was accepted is not known.
        """
        from perdure._crypto.private import SEALING
        from perdure._crypto.sealed import bound_to
        from perdure._wire.requests import Resolution
        from perdure.client.asking import settling

        with bound_to(entity_of(name_of(lifecycle), entity_id)):
            receipt = to_jsonable_python(receipt, context=SEALING)
        said = Resolution(by=by, note=note, outcome=outcome, receipt=receipt, effect=effect)
        standing = await self.status(lifecycle, entity_id)
        if not standing.final:
            return await self._update(lifecycle, entity_id, "resolve", said)
        status = await self._carry(settling(standing, said), None)
        return f"resolved as {status}; it had ended as {standing.state}"

    async def retry(
        self, lifecycle: Which, entity_id: object, *, by: str, note: str = "", send_refused: bool = True
    ) -> str:
        """Let it go on at once; raises as `resolve`.

        Args:
            send_refused: whether an effect that was refused may be sent again, under a new key. If not, an entity
                whose retry would do that raises `NotNow`.
        """
        from perdure._wire.requests import RetryRequest

        asked = RetryRequest(by=by, note=note, send_refused=send_refused)
        return await self._update(lifecycle, entity_id, "retry_now", asked)

    async def send_again(
        self, lifecycle: Which, entity_id: object, *, by: str, note: str, effect: str | None = None
    ) -> str:
        """Send an effect anew that ended without being done, under a new key; raises as `resolve`."""
        from perdure._wire.requests import SendAgain

        return await self._update(lifecycle, entity_id, "send_again", SendAgain(by=by, note=note, effect=effect))

    async def _update(self, lifecycle: Which, entity_id: object, update: str, asked: OperatorRequest) -> str:
        from perdure._crypto.codec import encrypting_client
        from perdure.client.asking import PATIENCE, Asking
        from perdure.settings import settings

        config = self._config or settings()
        entity = entity_of(name_of(lifecycle), entity_id)
        standing = await self.status(entity.lifecycle, entity.id)
        if standing.scope not in (None, config.scope or ""):  # that scope may have a workflow of this name
            raise NotThisDatabase(
                f"{entity}: this database works with PERDURE_SCOPE={standing.scope or 'none'!r}, this client with "
                f"{config.scope or 'none'!r}: set it right"
            )
        patience = PATIENCE if self._patience is None else self._patience
        temporal_client = self._temporal_client and encrypting_client(self._temporal_client, config)
        asking = Asking(
            temporal_client, config.scope, entity, lambda: self.status(entity.lifecycle, entity.id), patience
        )
        return await asking.update(update, asked)

    @property
    def _pool(self) -> Pool:
        if self._given_pool is None:
            raise NotConnected(
                "this needs the app's database: make the client by `async with Client.connect() as client:`, "
                "or give Client(pool), or where the verb has it connection="
            )
        return self._given_pool
