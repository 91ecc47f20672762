"""`Client`: what an app and an operator do with lifecycles: start, look, wait, settle."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

import asyncpg
import temporalio.client
from temporalio.client import WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from perdure import schema
from perdure.app import App, input_json, name_of
from perdure.contracts.keys import Entity
from perdure.contracts.outcomes import Status
from perdure.errors import AlreadyFinished, DatabaseUnavailable, EngineUnavailable, InvalidInput, NoSuchEntity, NotNow
from perdure.queries import query
from perdure.schema import Connection
from perdure.settings import Settings, settings
from perdure.store.postgres import Database, Pool, answering, as_json
from perdure.telemetry import names, traces
from perdure.workflow.lifecycle import Lifecycle
from perdure.workflow.requests import Request, Resolution, SendAgain

I = TypeVar("I")  # noqa: E741
Which = type[Lifecycle[Any, Any]] | str


@dataclass(frozen=True, slots=True)
class EffectRecord:
    """What the fence has on record of one effect; `receipt` is JSON data."""

    key: str
    effect: str
    status: Status
    attempts: int
    first_at: datetime
    deadline: datetime
    receipt: Any
    why: str | None
    settled_by: str | None


@dataclass(frozen=True, slots=True)
class EntityStatus:
    """Where an entity is, as the mirror shows it.

    Attributes:
        final: whether `state` is final.
        since: since when it is in that state; None where its month was dropped.
        waits_for_delivery: it was started, and Temporal does not know it yet.
        rejected: why it could not be delivered.
    """

    lifecycle: str
    id: str
    round: int
    state: str
    final: bool
    since: datetime | None
    attention: str | None = None
    tenant: str | None = None
    waits_for_delivery: bool = False
    rejected: str | None = None
    effects: tuple[EffectRecord, ...] = ()


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


class Client:
    """Works with lifecycles. Make it with `Client.connect`, or from a pool and a Temporal client of your own.

    Args:
        pool: asyncpg pool of the app's database.
        engine: Temporal client with `pydantic_data_converter`; not needed to start and look.
        config: scope and task queue; from the environment where not given.
        app: checks names and inputs of lifecycles that are given by name.
    """

    def __init__(
        self,
        pool: Pool,
        engine: temporalio.client.Client | None = None,
        *,
        config: Settings | None = None,
        app: App | None = None,
    ) -> None:
        self._pool = pool
        self._engine = engine
        self._config = config or settings()
        self._app = app

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        config: Settings | None = None,
        *,
        engine: temporalio.client.Client | None = None,
        app: App | None = None,
    ) -> AsyncIterator[Client]:
        """A client with connections of its own, for as long as the context lasts.

        Raises:
            DatabaseUnavailable: no PostgreSQL answers.
            SchemaMismatch: its schema is missing, too old or too new.
        """
        config = config or settings()
        database = Database(config.database_url, most=config.connections)
        pool = await database.open()
        try:
            async with pool.acquire() as connection:
                await schema.check(connection)
            yield cls(pool, engine, config=config, app=app)
        finally:
            await database.close()

    async def start(
        self,
        lifecycle: type[Lifecycle[I, Any]] | str,
        entity_id: object,
        given: I,
        *,
        connection: Connection | None = None,
        tenant: str | None = None,
    ) -> Handle:
        """Start the lifecycle of an entity; a second start changes nothing.

        Args:
            lifecycle: the class, or its name.
            entity_id: id of the app's row.
            given: the lifecycle's input.
            connection: of the app, with a transaction open: the start is committed, or rolled back, with it.
            tenant: for filters.

        Raises:
            InvalidEntity: the id can't be used.
            InvalidInput: `given` does not validate.
            UnknownLifecycle: the client's app has no lifecycle of that name.
            DatabaseUnavailable: no answer; a second start does no harm.
        """
        entity = Entity(name_of(lifecycle), str(entity_id))
        data, initial = self._checked(lifecycle, given)
        call = "select perdure.start($1, $2, $3::jsonb, $4, $5, $6)"
        values = (entity.lifecycle, entity.id, data, initial, tenant)
        try:
            # In the app's transaction the errors are the app's.
            with _traced(entity.lifecycle) as traceparent, nullcontext() if connection else answering():
                answer = await (connection or self._pool).fetchval(call, *values, traceparent)
        except (asyncpg.UntranslatableCharacterError, asyncpg.InvalidTextRepresentationError) as error:
            raise InvalidInput(f"{entity}: PostgreSQL can't store the input: {error}") from error
        return Handle(self, entity, str(answer))

    async def status(self, lifecycle: Which, entity_id: object) -> EntityStatus:
        """Where an entity is.

        Raises:
            NoSuchEntity: the database knows none of that id.
            DatabaseUnavailable: no answer.
        """
        name, key = name_of(lifecycle), str(entity_id)
        with answering():
            return await self._read_status(name, key)

    async def _read_status(self, name: str, key: str) -> EntityStatus:
        async with self._pool.acquire() as connection:
            row = await connection.fetchrow(query("entity_status"), name, key)
            if row is None:
                raise NoSuchEntity(
                    f"there is no {name}/{key}: it was never started, or its transaction was rolled back"
                )
            effects = await connection.fetch(query("entity_effects"), name, key, row["round"])
        return EntityStatus(
            lifecycle=name,
            id=key,
            round=row["round"],
            state=row["state"],
            final=row["final"] is not None,
            since=row["since"] or row["finished_at"],
            attention=row["attention"],
            tenant=row["tenant"],
            waits_for_delivery=row["waits"],
            rejected=row["rejected"],
            effects=tuple(_effect(each) for each in effects),
        )

    async def wait(self, lifecycle: Which, entity_id: object, *, timeout: timedelta | None = None) -> EntityStatus:
        """Wait until an entity is in a final state. Looks into the mirror, so it works without the engine too.

        Raises:
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
        with answering():
            rows = await self._pool.fetch(query("open_entities"), name_of(lifecycle), state, attention, before, limit)
        return [EntityStatus(**dict(row), final=False) for row in rows]

    async def resolve(
        self,
        lifecycle: Which,
        entity_id: object,
        outcome: Status,
        *,
        by: str,
        note: str,
        receipt: Any = None,
        effect: str | None = None,
    ) -> str:
        """Say what became of an effect in doubt; see `Resolution`. Returns what came of that.

        Works for an entity that ended with the doubt open (expired, cancelled), too.

        Raises:
            NotNow: nothing is parked, or the receipt does not fit; the message says which.
            AlreadyFinished: it came too late.
            EngineUnavailable: no Temporal server answered.
        """
        said = Resolution(by=by, note=note, outcome=outcome, receipt=receipt, effect=effect)
        standing = await self.status(lifecycle, entity_id)
        if standing.final:
            return await self._settle(standing, said)
        return await self._update(lifecycle, entity_id, "resolve", said)

    async def retry(self, lifecycle: Which, entity_id: object, *, by: str, note: str = "") -> str:
        """Let it go on at once; raises as `resolve`."""
        return await self._update(lifecycle, entity_id, "retry_now", Request(by=by, note=note))

    async def send_again(
        self, lifecycle: Which, entity_id: object, *, by: str, note: str, effect: str | None = None
    ) -> str:
        """Send an effect anew that ended without being done, under a new key; raises as `resolve`."""
        return await self._update(lifecycle, entity_id, "send_again", SendAgain(by=by, note=note, effect=effect))

    async def cancel(self, lifecycle: Which, entity_id: object, *, by: str, note: str = "") -> str:
        """End it before its time; raises as `resolve`."""
        return await self._update(lifecycle, entity_id, "cancel", Request(by=by, note=note))

    async def restart(
        self,
        lifecycle: type[Lifecycle[I, Any]] | str,
        entity_id: object,
        *,
        by: str,
        note: str,
        given: I | None = None,
    ) -> int:
        """Run a finished entity again, as a new round with new keys; returns the round.

        Args:
            given: another input; None = the one of last time.

        Raises:
            NoSuchEntity: there is none.
            NotNow: it is still open, or one of its effects is in doubt.
        """
        name, key = name_of(lifecycle), str(entity_id)
        data, initial = self._checked(lifecycle, given) if given is not None else (None, self._initial(lifecycle))
        call = "select perdure.restart($1, $2, $3, $4, $5, $6::jsonb, $7)"
        try:
            with _traced(name) as traceparent, answering():
                return int(await self._pool.fetchval(call, name, key, by, note, initial, data, traceparent))
        except asyncpg.NoDataFoundError as error:
            raise NoSuchEntity(_with_hint(error)) from error
        except asyncpg.ObjectNotInPrerequisiteStateError as error:
            raise NotNow(_with_hint(error)) from error

    async def _settle(self, standing: EntityStatus, said: Resolution) -> str:
        """There is no workflow any more to resolve it: the fence alone is told."""
        doubtful = (Status.ATTEMPTING, Status.IN_DOUBT)
        if not any(each.status in doubtful for each in standing.effects):
            raise AlreadyFinished(f"{standing.lifecycle}/{standing.id}: too late: already {standing.state}")
        call = "select perdure.settle($1, $2, $3, $4, $5, $6, $7::jsonb)"
        given = (said.effect, said.outcome.value, said.by, said.note, as_json(said.receipt))
        try:
            with answering():
                status = await self._pool.fetchval(call, standing.lifecycle, standing.id, *given)
        except (asyncpg.ObjectNotInPrerequisiteStateError, asyncpg.InvalidParameterValueError) as error:
            raise NotNow(_with_hint(error)) from error
        return f"resolved as {status}; it had ended as {standing.state}"

    async def _update(self, lifecycle: Which, entity_id: object, update: str, asked: Request) -> str:
        if self._engine is None:
            raise EngineUnavailable(f"{update} needs Temporal: give the client an engine=")
        entity = Entity(name_of(lifecycle), str(entity_id))
        handle = self._engine.get_workflow_handle(entity.workflow_id(self._config.scope))
        try:
            return await _executed(handle, update, asked)
        except WorkflowUpdateFailedError as error:
            raise await self._refusal(entity, error.cause) from error
        except (RPCError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
            raise await self._no_answer(entity, error) from error

    async def _refusal(self, entity: Entity, cause: BaseException | None) -> Exception:
        standing = await self.status(entity.lifecycle, entity.id)
        if standing.final:
            return AlreadyFinished(f"{entity}: too late: already {standing.state}")
        return NotNow(f"{entity}: {cause.message if isinstance(cause, ApplicationError) else cause}")

    async def _no_answer(self, entity: Entity, error: Exception) -> Exception:
        standing = await self.status(entity.lifecycle, entity.id)
        if standing.final:
            return AlreadyFinished(f"{entity}: too late: already {standing.state}")
        if isinstance(error, RPCError) and error.status is RPCStatusCode.NOT_FOUND:
            return NotNow(f"{entity} waits to be delivered to Temporal: ask again in a moment")
        return EngineUnavailable(f"{entity}: no answer from Temporal: {error}")

    def _checked(self, lifecycle: Which, given: Any) -> tuple[str, str]:
        """Input as JSON text, and the initial state."""
        known = self._known(lifecycle)
        if known is not None:
            data = input_json(known, given)
        else:
            data = given.model_dump(mode="json") if hasattr(given, "model_dump") else given
        try:
            return json.dumps(data), self._initial(lifecycle)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{name_of(lifecycle)}: the input is no JSON: {error}") from error

    def _initial(self, lifecycle: Which) -> str:
        known = self._known(lifecycle)
        return "pending" if known is None else str(known.declared.initial.value)

    def _known(self, lifecycle: Which) -> type[Lifecycle[Any, Any]] | None:
        if not isinstance(lifecycle, str):
            return lifecycle
        return None if self._app is None else self._app.lifecycle(lifecycle)


@contextmanager
def _traced(lifecycle: str) -> Iterator[str | None]:
    """A span around a start, in the app's own trace; gives its `traceparent`, which goes along in the outbox."""
    about = {names.LIFECYCLE: lifecycle}
    with traces.span(f"{names.SPAN_START} {lifecycle}", about, kind=traces.SpanKind.PRODUCER):
        yield traces.headers().get(traces.TRACEPARENT)


async def _executed(handle: temporalio.client.WorkflowHandle[Any, Any], update: str, asked: Request) -> str:
    """Send an update; while the workflow's task fails, as after its worker was lost, the server takes none."""
    until = time.monotonic() + 15
    while True:
        try:
            return str(await handle.execute_update(update, asked, result_type=str, rpc_timeout=timedelta(seconds=20)))
        except RPCError as error:
            if error.status is not RPCStatusCode.FAILED_PRECONDITION or time.monotonic() >= until:
                raise
            await asyncio.sleep(0.5)


def _effect(row: asyncpg.Record) -> EffectRecord:
    receipt = row["receipt"]
    values = {
        **dict(row),
        "status": Status(row["status"]),
        "receipt": json.loads(receipt) if receipt else None,
    }
    return EffectRecord(**values)


def _with_hint(error: asyncpg.PostgresError) -> str:
    hint = getattr(error, "hint", None)
    return f"{error.args[0]}: {hint}" if hint else str(error)  # `str` of it would say the hint as well
