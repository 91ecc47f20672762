"""`Client`: the verbs of apps and operators: start, signal, read, wait, resolve."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

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
    from perdure.client.asking import Asking
    from perdure.client.naming import Which
    from perdure.client.records import Event
    from perdure.contracts.outcomes import EffectStatus
    from perdure.settings import Settings

I = TypeVar("I")  # noqa: E741


class Client:
    """Starts, signals, cancels, restarts, reads and resolves lifecycles.

    `Client()` works in connections of the app. `Client.connect` opens its own connections, and can also read and wait.

    `connection=` of `start`, `signal`, `cancel` and `restart` is the app's own asynchronous connection, with an open
    transaction: of asyncpg, psycopg 3 or SQLAlchemy (also an AsyncSession). The call is committed, or rolled back, with
    the app's row. Errors of PostgreSQL are raised as exceptions of that library. An app with blocking connections uses
    `SyncClient`.

    Args:
        pool: asyncpg pool of the app's database.
        temporal_client: Temporal client with `pydantic_data_converter`; not needed to start and read. If there are
            keys, it encrypts, unless it has a codec of its own.
        config: scope and task queue; by default from the environment.
        app: checks names and inputs of lifecycles that are given by name.
        patience: how long to wait for a workflow's answer; None = 20 s.

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
        """A client with connections of its own, until the end of the context.

        Raises:
            DatabaseUnavailable: PostgreSQL does not answer.
            SchemaMismatch: the schema is missing, too old or too new.
            NotPermitted: nothing was granted to the database role; the message has the command.
        """
        from perdure._store import schema
        from perdure._store.postgres import Database, answering
        from perdure._store.schema.kinds import Kind
        from perdure._store.schema.rights import permitting
        from perdure.settings import settings

        config = config or settings()
        database = Database(config.database_url, most=config.connections)
        pool = await database.open()
        try:
            with answering():
                async with permitting(pool, Kind.APP, Kind.READER), pool.acquire() as connection:
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
            connection: the app's connection, with an open transaction. The start is committed, or rolled back, with it.
            tenant: stored with the entity, for filters and limited roles.
            not_before: nothing begins before this time, which has a time zone.
            priority: order of delivery if many starts wait, 1 (first) to 5.

        Raises:
            InvalidEntity: the id cannot be used.
            InvalidInput: `given` or another argument is not valid.
            UnknownLifecycle: the client's app has no lifecycle of that name.
            NoTransaction: the connection would commit the start by itself.
            UnknownConnection: the connection blocks (use `SyncClient`), is of an unknown library, or is a session with
                several databases.
            NotConnected: `connection` is missing in synchronous code, or the client has no connections of its own.
            DatabaseUnavailable: no answer. Start again: a second start changes nothing. Only without `connection`.
            NotPermitted: the database role lacks a right. Only without `connection`.
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
        """Send a signal to an open lifecycle, through the database. It is delivered after the app has committed.

        Returns `sent`, `known` (this generation has had that `message_id`) or `finished` (the lifecycle has ended).

        Args:
            name: the handler, or its name.
            payload: the handler's argument, if it has one.
            connection: see `start`.
            message_id: makes a repeated call harmless: each generation gets one message with an id. By default new.
                Ids that begin with `perdure-` are reserved.
            not_before: the signal is not delivered before this time, which has a time zone.

        Raises:
            InvalidEntity, InvalidInput, UnknownLifecycle, NoTransaction, UnknownConnection, NotConnected: as `start`.
            NoSuchEntity, NotPermitted, DatabaseUnavailable: only without `connection`; with it, the library raises its
                own error.
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
        """Request the end of an entity.

        With a connection of the app, the request is part of its transaction, and returns and raises as `signal`.
        Without one, the workflow is asked; the call returns its answer, and raises as `resolve`.
        """
        if connection is not None:
            return str(await self._carry(verbs.cancel(lifecycle, entity_id, by, note), connection))
        from perdure._wire.requests import OperatorRequest
        from perdure.client.asking import requested

        entity = entity_of(lifecycle, entity_id)
        return await self._update(entity, "cancel", requested(OperatorRequest, entity, by=by, note=note))

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
            given: a new input; None = the previous one.
            connection: see `start`.

        Raises:
            NoSuchEntity: there is no such entity.
            NotNow: the entity is still open, or one of its effects is in doubt.
            These are raised only without `connection`; with it, the library raises its own error.
        """
        with verbs.traced(verbs.restart(self._app, lifecycle, entity_id, by, note, given)) as call:
            return int(await self._carry(call, connection))

    async def status(self, lifecycle: Which, entity_id: object) -> EntityStatus:
        """The status of an entity.

        Raises:
            InvalidEntity: the id cannot be used.
            NoSuchEntity: the database has no entity with that id.
            DatabaseUnavailable: no answer.
        """
        from perdure.client.reading import read_status

        name = name_of(lifecycle)
        text = id_text(name, entity_id)
        return await read_status(self._pool, name, text)

    async def wait(self, lifecycle: Which, entity_id: object, *, timeout: timedelta | None = None) -> EntityStatus:
        """Wait until an entity is in a final state. Reads the database only, so it also works without Temporal.

        Raises:
            InvalidEntity: the id cannot be used.
            NoSuchEntity: the database has no entity with that id.
            TimeoutError: the state is not final after `timeout`.
        """
        until = None if timeout is None else time.monotonic() + timeout.total_seconds()
        pause, seen = 0.02, "not known"
        while True:
            try:
                found = await self.status(lifecycle, entity_id)
                seen = repr(found.state)
                if found.final:
                    return found
            except DatabaseUnavailable as error:  # a caller that waits for days also waits for a restarted server
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
            state: only entities in this state.
            attention: only entities that need a person.
            before: only entities that entered their state before this time.
            limit: maximum number of entities.

        Raises:
            InvalidInput: an argument cannot be used.
            DatabaseUnavailable: no answer.
        """
        from perdure.client.reading import read_open

        return await read_open(self._pool, name_of(lifecycle), state, attention, before, limit)

    async def feed(self, after: str | None = None, *, wait: bool = True) -> AsyncGenerator[Event, None]:
        """Every transition of every lifecycle, each entity's in order, as they are committed. None is missed.

        A follower that stops between handling an event and storing its position gets the event again, with the same
        `lifecycle`, `id`, `version` and `at`.

        Args:
            after: the `position` of the last event that was handled; None = from the beginning.
            wait: whether to wait for further events, through restarts of the database, or to end at the newest.

        Raises:
            InvalidPosition: the position is malformed, or is not valid here, for example in a restored database.
            DatabaseUnavailable: no answer, if `wait` is False.
        """
        from perdure.client.feed import follow

        async for event in follow(self._pool, after, wait=wait):
            yield event

    async def feed_position(self, since: datetime | None = None) -> str:
        """A position for `feed`: its end, for new events only; with `since`, before all events that are as old as that.

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
        attempt: int | None = None,
        update_id: str | None = None,
    ) -> str:
        """Give the outcome of an effect in doubt; see `Resolution`. Returns a sentence about the result.

        Also resolves a doubt of an entity that ended with the doubt open (expired, cancelled).

        Args:
            update_id: of a request that may have been sent before: a run of the workflow carries it out once, and gives
                the same answer again. None = it is a new one.

        Raises:
            InvalidInput: an argument cannot be used.
            NotThisDatabase: the client's scope is not that of its database; nothing was sent.
            DatabaseUnavailable: PostgreSQL does not answer.
            NotNow: no effect waits for a person, or the receipt does not fit. The message has the reason.
            NoWorkflow: no workflow of the entity is open in Temporal.
            AlreadyFinished: the entity has ended, and no effect of it is in doubt.
            TemporalUnavailable: no Temporal server or no worker answered, or this process does not have the key of the
                answer. Whether the request was accepted is unknown.
        """
        from perdure._wire.requests import Resolution
        from perdure.client.asking import receipt_data, requested, settling

        entity = entity_of(lifecycle, entity_id)
        given = {"outcome": outcome, "effect": effect, "attempt": attempt, "receipt": receipt_data(entity, receipt)}
        resolution = requested(Resolution, entity, by=by, note=note, **given)
        standing = await self.status(lifecycle, entity_id)
        if not standing.final:
            return await self._update(entity, "resolve", resolution, update_id)
        status = await self._carry(settling(standing, resolution), None)
        return f"resolved as {status}; it had ended as {standing.state}"

    async def retry(
        self,
        lifecycle: Which,
        entity_id: object,
        *,
        by: str,
        note: str = "",
        send_refused: bool = True,
        update_id: str | None = None,
    ) -> str:
        """Let an entity continue at once; raises as `resolve`.

        Args:
            send_refused: whether an effect that was refused may be sent again, with a new key. If not, the call raises
                `NotNow` for an entity whose retry would do that.
            update_id: see `resolve`.
        """
        from perdure._wire.requests import RetryRequest
        from perdure.client.asking import requested

        entity = entity_of(lifecycle, entity_id)
        asked = requested(RetryRequest, entity, by=by, note=note, send_refused=send_refused)
        return await self._update(entity, "retry_now", asked, update_id)

    async def send_again(
        self,
        lifecycle: Which,
        entity_id: object,
        *,
        by: str,
        note: str,
        effect: str | None = None,
        update_id: str | None = None,
    ) -> str:
        """Send an effect anew that ended without being done, with a new key; raises as `resolve`.

        Args:
            effect: see `SendAgain`.
            update_id: see `resolve`.
        """
        from perdure._wire.requests import SendAgain
        from perdure.client.asking import requested

        entity = entity_of(lifecycle, entity_id)
        asked = requested(SendAgain, entity, by=by, note=note, effect=effect)
        return await self._update(entity, "send_again", asked, update_id)

    async def earlier_answer(self, lifecycle: Which, entity_id: object, update_id: str) -> str | None:
        """The answer to a request with this `update_id` that was accepted, also if the workflow has ended since; None =
        its newest run has accepted none.

        Raises:
            TemporalUnavailable: no Temporal server answered, or this process does not have the key of the answer.
        """
        return await self._asking(entity_of(lifecycle, entity_id)).earlier_answer(update_id)

    async def _carry(self, asked: Call, connection: AsyncConnection | None) -> Any:
        if connection is not None:
            return await carry_awaited(connection, asked)
        pool = self._pool
        from perdure.client.reading import carry_out

        return await carry_out(pool, asked)

    async def _update(self, entity: Entity, update: str, asked: OperatorRequest, update_id: str | None = None) -> str:
        return await self._asking(entity).update(update, asked, update_id)

    def _asking(self, entity: Entity) -> Asking:
        from perdure.client.asking import PATIENCE, Asking
        from perdure.settings import settings

        patience = PATIENCE if self._patience is None else self._patience
        return Asking(self._pool, self._temporal_client, self._config or settings(), entity, patience)

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
    """The lifecycle of one entity, from `Client.start`.

    Attributes:
        answer: `started`; `open` if it already runs; `finished` if it has ended, and nothing was started.
    """

    client: Client
    entity: Entity
    answer: str

    @property
    def finished(self) -> bool:
        """Whether the entity had ended before. Only `restart` runs it again."""
        return self.answer == "finished"

    async def status(self) -> EntityStatus:
        """The present status."""
        return await self.client.status(self.entity.lifecycle, self.entity.id)

    async def wait(self, *, timeout: timedelta | None = None) -> EntityStatus:
        """Wait for the end; see `Client.wait`."""
        return await self.client.wait(self.entity.lifecycle, self.entity.id, timeout=timeout)
