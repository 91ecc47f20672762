"""`Client`: the verbs of an app and of an operator: start, signal, look, wait, settle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic_core import to_jsonable_python

from perdure.client import verbs
from perdure.client.calls import Call
from perdure.client.connections import AsyncConnection, awaited, carry_awaited
from perdure.client.naming import Handler, entity_of, name_of
from perdure.client.records import EntityStatus
from perdure.contracts.keys import Entity, id_text
from perdure.errors import DatabaseUnavailable, NotConnected

if TYPE_CHECKING:  # a web app that only starts needs none of these
    import temporalio.client

    from perdure._store.postgres import Pool
    from perdure._wire.requests import OperatorRequest
    from perdure._workflow.lifecycle import Lifecycle
    from perdure.app import App
    from perdure.client.naming import Which
    from perdure.client.records import Event
    from perdure.contracts.outcomes import EffectStatus
    from perdure.settings import Settings

I = TypeVar("I")  # noqa: E741


class Client:
    """Works with lifecycles. Without anything given it starts, signals, cancels and restarts in connections of the
    app's; `Client.connect` has connections of its own, and can look and wait as well.

    `connection=` of `start`, `signal`, `cancel` and `restart` is the app's own, with its transaction open: of
    asyncpg, psycopg 3 or SQLAlchemy (an AsyncSession, too), and is awaited. What was asked is then committed, or
    rolled back, with the app's row, and errors of PostgreSQL are raised as that library has them. An app whose
    connection blocks has `SyncClient`.

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

    @awaited
    async def start(
        self,
        lifecycle: type[Lifecycle[I, Any]] | str,
        entity_id: object,
        given: I,
        *,
        connection: AsyncConnection | None = None,
        tenant: str | None = None,
        not_before: datetime | None = None,
        priority: int = 3,
    ) -> Handle:
        """Start the lifecycle of an entity; a second start changes nothing.

        Args:
            lifecycle: the class, or its name.
            entity_id: id of the app's row.
            given: the lifecycle's input: a Pydantic model, a dataclass, or JSON data.
            connection: of the app, with a transaction open: the start is committed, or rolled back, with it.
            tenant: for filters.
            not_before: nothing is begun before that instant, which has a time zone.
            priority: 1 (first) to 5: which is delivered first where many wait.

        Raises:
            InvalidEntity: the id can't be used.
            InvalidInput: `given` or another argument does not validate.
            UnknownLifecycle: the client's app has no lifecycle of that name.
            NoTransaction: the connection would commit the start by itself.
            UnknownConnection: the connection blocks, which `SyncClient` takes, or is none that perdure knows.
            NotConnected: `connection` is missing in synchronous code, or the client has no connections of its own.
            DatabaseUnavailable: no answer; a second start does no harm. Only without `connection`.
        """
        asked = verbs.start(self._app, lifecycle, entity_id, given, tenant, not_before, priority)
        with verbs.traced(asked) as call:
            return Handle(self, asked.entity, str(await self._carry(call, connection)))

    @awaited
    async def signal(
        self,
        lifecycle: Which,
        entity_id: object,
        name: str | Handler,
        payload: Any = None,
        *,
        connection: AsyncConnection | None = None,
        message_id: str | None = None,
        not_before: datetime | None = None,
    ) -> str:
        """Give a signal to an open lifecycle, through the database: it is delivered when the app has committed.

        Returns `sent`, `known` (a message of that id was given before) or `finished` (nobody hears it any more).

        Args:
            name: the handler, or its name.
            payload: what the handler takes, if it takes something.
            connection: see `start`.
            message_id: the same message given again is not delivered again. Made anew where it is not given.
            not_before: it is not delivered before that instant, which has a time zone.

        Raises:
            InvalidEntity, InvalidInput, UnknownLifecycle, NoTransaction, UnknownConnection, NotConnected: as `start`.
            NoSuchEntity, DatabaseUnavailable: only without `connection`; with it the error is its library's.
        """
        asked = verbs.signal(self._app, lifecycle, entity_id, name, payload, message_id, not_before)
        return str(await self._carry(asked, connection))

    @awaited
    async def cancel(
        self,
        lifecycle: Which,
        entity_id: object,
        *,
        by: str,
        note: str = "",
        connection: AsyncConnection | None = None,
    ) -> str:
        """End it before its time.

        With a connection of the app's it is asked for in its transaction, and returns and raises as `signal`.
        Without one it asks the workflow, returns what came of that, and raises as `resolve`.
        """
        if connection is not None:
            return str(await self._carry(verbs.cancel(lifecycle, entity_id, by, note), connection))
        from perdure._wire.requests import OperatorRequest

        return await self._update(lifecycle, entity_id, "cancel", OperatorRequest(by=by, note=note))

    @awaited
    async def restart(
        self,
        lifecycle: type[Lifecycle[I, Any]] | str,
        entity_id: object,
        *,
        by: str,
        note: str,
        given: I | None = None,
        connection: AsyncConnection | None = None,
    ) -> int:
        """Run a finished entity again, as a new generation with new keys; returns the generation.

        Args:
            given: another input; None = the one of last time.
            connection: see `start`.

        Raises:
            NoSuchEntity: there is none.
            NotNow: it is still open, or one of its effects is in doubt.
            These only without `connection`; with it the error is its library's.
        """
        with verbs.traced(verbs.restart(self._app, lifecycle, entity_id, by, note, given)) as call:
            return int(await self._carry(call, connection))

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
            attention: only those that need a person.
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

        with bound_to(entity_of(lifecycle, entity_id)):
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

    async def _carry(self, asked: Call, connection: AsyncConnection | None) -> Any:
        if connection is not None:
            return await carry_awaited(connection, asked)
        pool = self._pool
        from perdure.client.reading import carry_out

        return await carry_out(pool, asked)

    async def _update(self, lifecycle: Which, entity_id: object, update: str, asked: OperatorRequest) -> str:
        from perdure.client.asking import PATIENCE, Asking
        from perdure.settings import settings

        patience = PATIENCE if self._patience is None else self._patience
        entity = entity_of(lifecycle, entity_id)
        asking = Asking(self._pool, self._temporal_client, self._config or settings(), entity, patience)
        return await asking.update(update, asked)

    @property
    def _pool(self) -> Pool:
        if self._given_pool is None:
            raise NotConnected(
                "this needs the app's database: make the client by `async with Client.connect() as client:`, "
                "or give Client(pool), or where the verb has it connection="
            )
        return self._given_pool


@dataclass(frozen=True, slots=True)
class Handle:
    """One entity's lifecycle, from `Client.start`.

    Attributes:
        answer: `started` now, `open` already, or `finished` already: then nothing was started.
    """

    client: Client
    entity: Entity
    answer: str

    @property
    def finished(self) -> bool:
        """Whether the entity had come to its end before; only `restart` runs it again."""
        return self.answer == "finished"

    async def status(self) -> EntityStatus:
        """Where it is now."""
        return await self.client.status(self.entity.lifecycle, self.entity.id)

    async def wait(self, *, timeout: timedelta | None = None) -> EntityStatus:
        """Wait for its end; see `Client.wait`."""
        return await self.client.wait(self.entity.lifecycle, self.entity.id, timeout=timeout)
