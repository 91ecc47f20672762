"""The verbs that go along with a transaction of the app's: start, signal, cancel, restart."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from perdure.client.calls import Call, call, entity_of, instant, rank
from perdure.client.connections import AppConnection, AsyncConnection, BlockingConnection, at_once, carry, is_blocking
from perdure.client.naming import Handler, input_text, known, name_of, signal_text
from perdure.client.records import Handle
from perdure.errors import NotConnected
from perdure.telemetry import names, traces

if TYPE_CHECKING:  # a web app that only starts needs none of these
    from perdure._store.postgres import Pool
    from perdure._wire.requests import OperatorRequest
    from perdure._workflow.lifecycle import Lifecycle
    from perdure.app import App
    from perdure.client.client import Client
    from perdure.client.naming import Which

I = TypeVar("I")  # noqa: E741
T = TypeVar("T")


class Transactional(ABC):
    """The part of `Client` whose verbs take `connection=`. Each is written once, to be awaited; on a connection that
    blocks it never has to wait, and is run to its end at once.
    """

    _app: App | None

    @overload
    def start(
        self,
        lifecycle: type[Lifecycle[I, Any]] | str,
        entity_id: object,
        given: I,
        *,
        connection: BlockingConnection,
        tenant: str | None = None,
        not_before: datetime | None = None,
        priority: int = 3,
    ) -> Handle: ...

    @overload
    def start(
        self,
        lifecycle: type[Lifecycle[I, Any]] | str,
        entity_id: object,
        given: I,
        *,
        connection: AsyncConnection | None = None,
        tenant: str | None = None,
        not_before: datetime | None = None,
        priority: int = 3,
    ) -> Coroutine[Any, Any, Handle]: ...

    def start(
        self,
        lifecycle: Which,
        entity_id: object,
        given: Any,
        *,
        connection: AppConnection | None = None,
        tenant: str | None = None,
        not_before: datetime | None = None,
        priority: int = 3,
    ) -> Handle | Coroutine[Any, Any, Handle]:
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
            NotConnected: `connection` is missing in synchronous code, or the client has no connections of its own.
            DatabaseUnavailable: no answer; a second start does no harm. Only without `connection`.
        """

        async def work() -> Handle:
            entity = entity_of(name_of(lifecycle), entity_id)
            which = known(lifecycle, self._app)
            asked = call("start", entity, input=input_text(entity, which, given)).also(
                tenant=tenant,
                not_before=instant(str(entity), not_before),
                priority=rank(str(entity), priority),
            )
            with _traced(entity.lifecycle) as traceparent:
                answer = await self._carry(asked.also(traceparent=traceparent), connection)
            return Handle(cast("Client", self), entity, str(answer))

        return self._run(work, connection)

    @overload
    def signal(
        self,
        lifecycle: Which,
        entity_id: object,
        name: str | Handler,
        payload: Any = None,
        *,
        connection: BlockingConnection,
        message_id: str | None = None,
        not_before: datetime | None = None,
    ) -> str: ...

    @overload
    def signal(
        self,
        lifecycle: Which,
        entity_id: object,
        name: str | Handler,
        payload: Any = None,
        *,
        connection: AsyncConnection | None = None,
        message_id: str | None = None,
        not_before: datetime | None = None,
    ) -> Coroutine[Any, Any, str]: ...

    def signal(
        self,
        lifecycle: Which,
        entity_id: object,
        name: str | Handler,
        payload: Any = None,
        *,
        connection: AppConnection | None = None,
        message_id: str | None = None,
        not_before: datetime | None = None,
    ) -> str | Coroutine[Any, Any, str]:
        """Give a signal to an open lifecycle, through the database: it is delivered when the app has committed.

        Returns `sent`, `known` (a message of that id was given before) or `finished` (nobody hears it any more).

        Args:
            name: the handler, or its name.
            payload: what the handler takes, if it takes something.
            connection: see `start`.
            message_id: the same message given again is not delivered again. Made anew where it is not given.
            not_before: it is not delivered before that instant, which has a time zone.

        Raises:
            InvalidEntity, InvalidInput, UnknownLifecycle, NoTransaction: as `start`.
            NoSuchEntity, DatabaseUnavailable: only without `connection`; with it the error is its library's.
        """

        async def work() -> str:
            entity = entity_of(name_of(lifecycle), entity_id)
            signal, text = signal_text(entity, known(lifecycle, self._app), name, payload)
            asked = call("signal", entity, name=signal).also(
                payload=text,
                message_id=message_id,
                not_before=instant(str(entity), not_before),
                traceparent=traces.headers().get(traces.TRACEPARENT),
            )
            return str(await self._carry(asked, connection))

        return self._run(work, connection)

    @overload
    def cancel(
        self, lifecycle: Which, entity_id: object, *, by: str, note: str = "", connection: BlockingConnection
    ) -> str: ...

    @overload
    def cancel(
        self,
        lifecycle: Which,
        entity_id: object,
        *,
        by: str,
        note: str = "",
        connection: AsyncConnection | None = None,
    ) -> Coroutine[Any, Any, str]: ...

    def cancel(
        self,
        lifecycle: Which,
        entity_id: object,
        *,
        by: str,
        note: str = "",
        connection: AppConnection | None = None,
    ) -> str | Coroutine[Any, Any, str]:
        """End it before its time.

        With a connection of the app's it is asked for in its transaction, and returns and raises as `signal`.
        Without one it asks the workflow, returns what came of that, and raises as `resolve`.
        """

        async def work() -> str:
            if connection is None:
                from perdure._wire.requests import OperatorRequest

                return await self._update(lifecycle, entity_id, "cancel", OperatorRequest(by=by, note=note))
            entity = entity_of(name_of(lifecycle), entity_id)
            return str(await self._carry(call("cancel", entity, made_by=by, note=note), connection))

        return self._run(work, connection)

    @overload
    def restart(
        self,
        lifecycle: type[Lifecycle[I, Any]] | str,
        entity_id: object,
        *,
        by: str,
        note: str,
        given: I | None = None,
        connection: BlockingConnection,
    ) -> int: ...

    @overload
    def restart(
        self,
        lifecycle: type[Lifecycle[I, Any]] | str,
        entity_id: object,
        *,
        by: str,
        note: str,
        given: I | None = None,
        connection: AsyncConnection | None = None,
    ) -> Coroutine[Any, Any, int]: ...

    def restart(
        self,
        lifecycle: Which,
        entity_id: object,
        *,
        by: str,
        note: str,
        given: Any = None,
        connection: AppConnection | None = None,
    ) -> int | Coroutine[Any, Any, int]:
        """Run a finished entity again, as a new generation with new keys; returns the generation.

        Args:
            given: another input; None = the one of last time.
            connection: see `start`.

        Raises:
            NoSuchEntity: there is none.
            NotNow: it is still open, or one of its effects is in doubt.
            These only without `connection`; with it the error is its library's.
        """

        async def work() -> int:
            entity = entity_of(name_of(lifecycle), entity_id)
            which = known(lifecycle, self._app)
            asked = call("restart", entity, made_by=by, note=note).also(
                input=None if given is None else input_text(entity, which, given)
            )
            with _traced(entity.lifecycle) as traceparent:
                return int(await self._carry(asked.also(traceparent=traceparent), connection))

        return self._run(work, connection)

    def _run(
        self, work: Callable[[], Coroutine[Any, Any, T]], connection: AppConnection | None
    ) -> T | Coroutine[Any, Any, T]:
        if is_blocking(connection):
            return at_once(work())
        if connection is None and not _in_async_code():
            # The caller forgot `connection=`: nobody would await the coroutine, and the call would be lost.
            raise NotConnected(
                "connection= is missing: in synchronous code give the app's connection, with its transaction open, as "
                "in client.start(..., connection=connection); without one, await this in async code"
            )
        return work()

    async def _carry(self, asked: Call, connection: AppConnection | None) -> Any:
        if connection is not None:
            return await carry(connection, asked)
        pool = self._pool
        from perdure.client.reading import carry_out

        return await carry_out(pool, asked)

    @property
    @abstractmethod
    def _pool(self) -> Pool: ...

    @abstractmethod
    async def _update(self, lifecycle: Which, entity_id: object, update: str, asked: OperatorRequest) -> str: ...


def _in_async_code() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@contextmanager
def _traced(lifecycle: str) -> Iterator[str | None]:
    """A span around a start, in the app's own trace; gives its `traceparent`, which goes along in the outbox."""
    about = {names.LIFECYCLE: lifecycle}
    with traces.span(f"{names.SPAN_START} {lifecycle}", about, kind=traces.SpanKind.PRODUCER):
        yield traces.headers().get(traces.TRACEPARENT)
