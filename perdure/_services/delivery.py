"""Delivers one row of the outbox to Temporal.

Every delivery can be repeated: a start finds the workflow that it started, and a message is processed once.
"""

from __future__ import annotations

import json
from datetime import timedelta
from functools import cache
from typing import Any, TypeAlias

import asyncpg
from pydantic_core import to_json
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import Priority, RawValue, TypedSearchAttributes
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from perdure._services.indexing import Indexing
from perdure._services.ownership.epochs import is_older, start_policies, why_not_ours
from perdure._services.runs import carried_by, present_run
from perdure._store.record import Record, carried_from
from perdure._text.shown import markdown
from perdure._wire.carried import CARRIED, Carried
from perdure._wire.indexed import need_a_person
from perdure._wire.messages import Message
from perdure._wire.names import MESSAGE, WAKE
from perdure._wire.requests import OperatorRequest
from perdure._wire.terms import Terms, all_terms
from perdure._workflow.messages import signals, unfit
from perdure.app import App, input_json
from perdure.contracts.digits import MORE_DIGITS, loses_digits
from perdure.contracts.effects import Effect
from perdure.contracts.keys import Entity
from perdure.contracts.sizes import ELSEWHERE, LARGEST, parsed, size_of
from perdure.errors import InvalidEntity, InvalidInput, PerdureError, TemporalUnavailable, UnknownKey
from perdure.settings import Settings
from perdure.telemetry import names, traces

Row: TypeAlias = asyncpg.Record

TASK_TIMEOUT = timedelta(seconds=5)
"""Time after which the inline effect of a killed worker is noticed."""

_RPC = timedelta(seconds=10)
_EAGER = "__temporal_eagerly_started"
"""An attribute that the SDK sets for tests. Without it no start counts as eager, and the relay has no limit."""
_OF_THE_SERVER = {
    RPCStatusCode.PERMISSION_DENIED: "refuses this client the namespace {!r}: correct its API key or certificate, or "
    "what they permit",
    RPCStatusCode.UNAUTHENTICATED: "does not accept the credentials of this client for the namespace {!r}: correct its "
    "API key or certificate",
    RPCStatusCode.UNIMPLEMENTED: "does not implement a call of this client in the namespace {!r}: does "
    "TEMPORAL_ADDRESS name the frontend of a Temporal server?",
}
_NO_NAMESPACE = (
    "has no namespace {!r}, or it was deleted: create it again, or correct TEMPORAL_NAMESPACE. All that waits is kept"
)
_USUAL = 3
_INDEX = "search attribute"
"""In each message of a server that does not know a search attribute."""
_FULL = "limit for signal events"
"""In the message of a server that accepts no further signal for one run: 10,000 by default. The next run of the
workflow has room again."""


class Undeliverable(PerdureError):
    """A repeated delivery cannot succeed."""


class Unreadable(Undeliverable):
    """The code of this relay cannot read the row. Another relay may run newer code."""


class NotForUs(PerdureError):
    """This relay does not have the lifecycle or signal of the row. Another one may."""


class NotYet(PerdureError):
    """Temporal answers, and cannot accept the row now."""


class TooSlow(PerdureError, TimeoutError):
    """Temporal needs too much time for the calls of one row."""


class Delivery:
    """Delivers rows.

    Args:
        client: the client of Temporal. If a worker of the same process uses it too, workflows start eagerly.
        app: the app with the lifecycles.
        settings: scope and task queue.
        indexing: the search attributes that a run may have; None = none.
    """

    def __init__(self, client: Client, app: App, settings: Settings, indexing: Indexing | None = None) -> None:
        self._client = client
        self._app = app
        self._settings = settings
        self._indexing = indexing

    async def deliver(self, row: Row, cancel: Row | None = None) -> bool | None:
        """Deliver a row. Returns True if the row started a workflow whose first task came to the worker of this
        process, and None if it started none.

        Args:
            row: the row; see `queries/lines.sql`.
            cancel: for a start, a later message that requests the end, so that no effect begins.

        Raises:
            Undeliverable: the row can never be delivered; `Unreadable`, unless another relay has newer code.
            NotForUs: this relay does not have the lifecycle or the signal.
            NotYet: the row must wait for an event in Temporal.
            TemporalUnavailable: Temporal accepts nothing here, for example because the namespace is gone. The row is
                not the cause.
            RPCError: Temporal fails.
        """
        if row["orphan"]:
            raise Undeliverable(_orphan(row))
        try:
            entity = Entity(row["lifecycle"], row["id"], row["generation"])
        except InvalidEntity as error:  # SQL accepts ids that Python refuses
            raise Undeliverable(str(error)) from error
        try:
            if row["kind"] == "start":
                return await self._start(entity, row, cancel)
            if row["kind"] == "message":
                await self._send(entity, row)
            else:
                await self._wake(entity, json.loads(row["body"])["key"])
        except WorkflowAlreadyStartedError:
            await self._check_generation(entity, row)
        except RPCError as error:
            if (why := _of_the_server(error)) is not None:
                raise TemporalUnavailable(f"Temporal {why.format(self._client.namespace)}") from error
            if error.status is RPCStatusCode.INVALID_ARGUMENT:
                if _FULL in error.message:
                    raise NotYet(f"its run has as many signals as Temporal permits: {error.message}") from error
                raise Undeliverable(f"Temporal refuses it: {error.message}") from error
            raise
        return None

    def can_cancel(self, row: Row) -> bool:
        """Whether the lifecycle of this row has a state with `cancelled=True`."""
        known = self._app.lifecycles.get(row["lifecycle"])
        return known is not None and known.declared.cancelled is not None

    async def _start(self, entity: Entity, row: Row, cancel: Row | None) -> bool:
        self._check_known(row)
        lifecycle = self._app.lifecycle(entity.lifecycle)
        _check_size(row["input"])
        given = committed = _loaded(row["input"])
        if row["record"] is None:  # else it was read before, and the run reports an unreadable input
            try:
                given = _with_what_is_new(committed, input_json(lifecycle, committed, recorded=True))
            except InvalidInput as error:
                raise Unreadable(str(error)) from error
            if loses_digits(lifecycle.input, committed):  # other runs take the input as it was committed
                raise Unreadable(f"{entity.lifecycle}: the input {MORE_DIGITS}")
            _check_bytes(size_of(given))  # with the defaults of the model
        asked = None if cancel is None else OperatorRequest.model_validate(_loaded(cancel["payload"]))
        carried = _carried(row, all_terms(lifecycle.effects), asked)
        if self._indexing is not None and self._indexing.known:
            carried = carried.model_copy(update={"indexed": need_a_person(lifecycle.declared)})
        workflow_id = entity.workflow_id(self._settings.scope)
        about = {names.LIFECYCLE: entity.lifecycle, names.GENERATION: entity.generation, names.WORKFLOW_ID: workflow_id}
        with traces.span(
            f"{names.SPAN_DELIVER} {entity.lifecycle}",
            about,
            kind=traces.SpanKind.CONSUMER,
            parent=row["traceparent"],
        ):
            if is_older(row):  # its id may have a closed run of another entity, which a start would follow
                await self._check_run(entity, row)
            memo = _memo(carried, lifecycle.effects)
            index = self._index(lifecycle.declared.today(carried.state or str(lifecycle.declared.initial)))
            try:
                return await self._start_workflow(entity, workflow_id, given, memo, row, index)
            except RPCError as error:
                if (
                    not index
                    or error.status is not RPCStatusCode.INVALID_ARGUMENT
                    or _INDEX not in error.message.lower()
                ):
                    raise
                assert self._indexing is not None
                self._indexing.refused()
                return await self._start_workflow(entity, workflow_id, given, memo, row, TypedSearchAttributes.empty)

    def _index(self, state: str) -> TypedSearchAttributes:
        return TypedSearchAttributes.empty if self._indexing is None else self._indexing.attributes(state)

    async def _start_workflow(
        self, entity: Entity, workflow_id: str, given: Any, memo: RawValue, row: Row, index: TypedSearchAttributes
    ) -> bool:
        reuse, conflict = start_policies(row)
        priority = row["priority"]
        handle = await self._client.start_workflow(
            entity.lifecycle,
            given,
            id=workflow_id,
            task_queue=self._settings.queue,
            memo={CARRIED: memo},
            search_attributes=index,
            id_reuse_policy=reuse,
            id_conflict_policy=conflict,
            # An eager start would run on this worker's build, even if another build is current.
            request_eager_start=self._settings.deployment is None,
            task_timeout=TASK_TIMEOUT,
            static_summary=markdown(entity),
            priority=Priority() if priority == _USUAL else Priority(priority_key=priority),
            rpc_timeout=_RPC,
        )
        return bool(getattr(handle, _EAGER, False))

    async def _send(self, entity: Entity, row: Row) -> None:
        self._check_known(row)
        _check_size(row["payload"])
        message = Message(
            ordinal=row["ordinal"],
            id=row["message_id"],
            kind=row["message_kind"],
            name=row["name"],
            payload=_loaded(row["payload"]),
            read_at=row["read_at"],
        )
        lifecycle = self._app.lifecycle(entity.lifecycle)
        if message.kind == "signal" and message.name not in signals(lifecycle):
            raise NotForUs(f"{entity.lifecycle} has no handler for the signal {message.name!r}")
        if why := unfit(lifecycle, message):
            raise Unreadable(f"{entity.lifecycle}: {why}")
        await self._signal(entity, MESSAGE, message)

    async def _wake(self, entity: Entity, key: str) -> None:
        try:
            await self._signal(entity, WAKE, key)
        except NotYet:
            return  # no run waits

    async def _signal(self, entity: Entity, name: str, given: Any) -> None:
        handle = self._client.get_workflow_handle(entity.workflow_id(self._settings.scope))
        try:
            await handle.signal(name, given, rpc_timeout=_RPC)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND and _of_the_server(error) is None:
                raise NotYet(f"no workflow of {entity} is open in Temporal") from error
            raise

    async def _check_generation(self, entity: Entity, row: Row) -> None:
        """Refuse a present run of the last generation, whose final state is recorded before it closes."""
        run = await self._check_run(entity, row)
        if run is not None and run.generation < entity.generation:
            raise NotYet(f"the run of generation {run.generation} is still closing")

    async def _check_run(self, entity: Entity, row: Row) -> Carried | None:
        """What the present run of the entity's id was given. It is refused if it is another entity's."""
        handle = self._client.get_workflow_handle(entity.workflow_id(self._settings.scope))
        seen = await present_run(handle)
        if seen is None:
            return None
        try:
            run = await carried_by(seen, needs_key=seen.status is WorkflowExecutionStatus.RUNNING)
        except UnknownKey as error:
            raise NotYet(f"the open run of {entity} can't be read: {error}") from error
        if run is not None and (why := why_not_ours(run, row)):
            raise Undeliverable(why)
        return run

    def _check_known(self, row: Row) -> None:
        if row["lifecycle"] not in self._app.lifecycles:
            raise NotForUs(f"no lifecycle is named {row['lifecycle']!r}")


def _orphan(row: Row) -> str:
    entity = f"{row['lifecycle']}/{row['id']}"
    if row["version"] is None:
        return f"the database has no entity {entity}: no message can be sent to it"
    return f"perdure.message does not have the message to {entity} any more"


def _of_the_server(error: RPCError) -> str | None:
    """Why Temporal accepts nothing in this namespace; None if one row may be the cause."""
    if any("/temporal.api.errordetails.v1.Namespace" in each.type_url for each in error.grpc_status.details):
        return _NO_NAMESPACE
    return _OF_THE_SERVER.get(error.status)


def _memo(carried: Carried, effects: tuple[Effect[Any, Any], ...]) -> RawValue:
    """The memo in the converter's form. The terms of the effects are serialized once for all starts."""
    written = to_json(carried, exclude={"terms"})
    data = b'%b,"terms":%b}' % (written.removesuffix(b"}"), _terms(effects))
    return RawValue(Payload(metadata={"encoding": b"json/plain"}, data=data))


@cache
def _terms(effects: tuple[Effect[Any, Any], ...]) -> bytes:
    return to_json(all_terms(effects))


def _carried(row: Row, terms: dict[str, Terms], cancel: OperatorRequest | None) -> Carried:
    gaps = is_older(row)
    if row["record"] is None:
        # Not the begin of the run: a time between the commit and that begin must not count as past.
        started_at = row["started_at"]
        # A run that is gone has made attempts. If their records are lost later, this run has no trace of them.
        gaps = gaps or row["attempted"]
        carried = Carried(
            generation=row["generation"], version=row["version"], started_at=started_at, born=row["born"], terms=terms
        )
    else:
        record = Record.model_validate_json(row["record"])
        carried = carried_from(record, row["generation"], row["version"], terms, epoch=row["newest_epoch"])
    known = {"gaps": gaps} if cancel is None else {"gaps": gaps, "cancel": cancel}
    return carried.model_copy(update=known)


def _check_size(text: str | None) -> None:
    _check_bytes(0 if text is None else len(text.encode()))


def _check_bytes(size: int) -> None:
    if size > LARGEST:
        raise Undeliverable(f"{size} bytes are too many, Temporal accepts {LARGEST}: {ELSEWHERE}")


def _with_what_is_new(committed: Any, read: Any) -> Any:
    """The input as this worker reads it, with the fields that only newer workers have, because they may run it."""
    if not isinstance(committed, dict) or not isinstance(read, dict):
        return read
    return committed | {name: _with_what_is_new(committed.get(name), value) for name, value in read.items()}


def _loaded(text: str | None) -> Any:
    try:
        return parsed(text)
    except InvalidInput as error:
        raise Undeliverable(str(error)) from None
