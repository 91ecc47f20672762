"""The relay: delivers to Temporal what the app committed. Any number may run; each row goes to one of them.

A row is claimed, delivered and deleted in one transaction, and every delivery can be repeated: a crash at any
instant delivers again, never not at all.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import asyncpg
from temporalio.client import Client
from temporalio.common import MetricMeter, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from perdure import faults
from perdure.app import App, input_json
from perdure.contracts.keys import Entity
from perdure.contracts.terms import all_terms
from perdure.errors import InvalidEntity, InvalidInput, PerdureError
from perdure.fleet.service import Service
from perdure.logs import says
from perdure.queries import query
from perdure.schema import Connection
from perdure.settings import Settings
from perdure.store.postgres import Pool
from perdure.telemetry import metrics, names, traces
from perdure.workflow.carried import CARRIED, Carried

log = logging.getLogger("perdure.relay")

BATCH = 50
FEW = 20
"""Starts per second."""
TASK_TIMEOUT = timedelta(seconds=5)
"""A killed worker's inline effect is noticed after this."""

_RPC = timedelta(seconds=10)
_NEVER = (RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.FAILED_PRECONDITION, RPCStatusCode.OUT_OF_RANGE)


class Undeliverable(PerdureError):
    """Delivering it again can't help."""


class NotForUs(PerdureError):
    """Another worker may know this lifecycle."""


class NotYet(PerdureError):
    """The run of the round before is still closing."""


class Relay(Service):
    """Delivers what stands in the outbox.

    Args:
        pool: the app's database.
        client: Temporal; where a worker of the same process uses it too, workflows start eagerly.
        app: knows the lifecycles.
        settings: scope, task queue, pace.
        meter: counts what becomes of the rows.
    """

    def __init__(
        self, pool: Pool, client: Client, app: App, settings: Settings, meter: MetricMeter | None = None
    ) -> None:
        super().__init__("relay", settings.relay_every)
        self._pool = pool
        self._client = client
        self._app = app
        self._settings = settings
        self._meter = meter
        self._delivered_at = 0.0

    async def once(self) -> bool:
        """Deliver a batch; True if it was a full one."""
        async with self._pool.acquire(timeout=5) as connection:
            if not await connection.fetchval(query("due")):
                return False
            return await self._deliver_batch(connection)

    async def _deliver_batch(self, connection: Connection) -> bool:
        async with connection.transaction():
            rows = await connection.fetch(query("claim"), BATCH)
            if not rows:  # another relay delivers them now
                return False
            for row in rows:
                faults.point("before the delivery of a", row["kind"])
            ends = await asyncio.gather(*(self._deliver(row) for row in rows), return_exceptions=True)
            delivered = [row["seq"] for row, end in zip(rows, ends, strict=True) if end is None]
            await connection.execute("delete from perdure.outbox where seq = any($1::bigint[])", delivered)
            for row, end in zip(rows, ends, strict=True):
                if end is not None:
                    await self._set_aside(connection, row, end)
            for row in rows:
                faults.point("after the delivery of a", row["kind"])
        faults.point("after the commit of the outbox")
        says(log, "delivered", count=len(delivered), of=len(rows))
        self._count(rows, ends)
        self._keep_pace(len(rows))
        return len(delivered) == BATCH

    def _keep_pace(self, count: int) -> None:
        """Few starts are looked for often, so that each is delivered soon; many wait for each other, and cost a
        transaction for all."""
        now = time.monotonic()
        if count < FEW * (now - self._delivered_at):
            self.stay_awake()
        self._delivered_at = now

    async def _deliver(self, row: asyncpg.Record) -> None:
        if row["over"] and row["kind"] == "start":
            return  # finished or restarted since: an older order of the same entity (invariant 7)
        # A wake goes all the same: a stale worker may have made the end, and the run that waits must hear of it.
        try:
            entity = Entity(row["lifecycle"], row["id"], row["round"])
        except InvalidEntity as error:  # SQL lets through what Python would not
            raise Undeliverable(str(error)) from error
        try:
            if row["kind"] == "start":
                await self._start(entity, row)
            else:
                handle = self._client.get_workflow_handle(entity.workflow_id(self._settings.scope))
                await handle.signal("perdure-wake", json.loads(row["body"])["key"], rpc_timeout=_RPC)
        except WorkflowAlreadyStartedError:
            await self._check_round(entity)
        except RPCError as error:
            if row["kind"] == "wake" and error.status is RPCStatusCode.NOT_FOUND:
                return
            if error.status in _NEVER:
                raise Undeliverable(f"Temporal refuses it: {error.message}") from error
            raise

    async def _start(self, entity: Entity, row: asyncpg.Record) -> None:
        if entity.lifecycle not in self._app.lifecycles:
            raise (Undeliverable if row["old"] else NotForUs)(f"no worker knows a lifecycle named {entity.lifecycle!r}")
        lifecycle = self._app.lifecycle(entity.lifecycle)
        try:
            committed = _loaded(row["input"])
            given = _with_what_is_new(committed, input_json(lifecycle, committed))
        except InvalidInput as error:
            raise Undeliverable(str(error)) from error
        workflow_id = entity.workflow_id(self._settings.scope)
        about = {names.LIFECYCLE: entity.lifecycle, names.ROUND: entity.round, names.WORKFLOW_ID: workflow_id}
        with traces.span(
            f"{names.SPAN_DELIVER} {entity.lifecycle}",
            about,
            kind=traces.SpanKind.CONSUMER,
            parent=row["traceparent"],
        ):
            await self._start_workflow(entity, workflow_id, given, row["version"])

    async def _start_workflow(self, entity: Entity, workflow_id: str, given: Any, version: int) -> None:
        first = entity.round == 0
        effects = self._app.lifecycle(entity.lifecycle).effects
        await self._client.start_workflow(
            entity.lifecycle,
            given,
            id=workflow_id,
            task_queue=self._settings.task_queue,
            memo={CARRIED: Carried(round=entity.round, version=version, terms=all_terms(effects))},
            # The default would start closed ids again.
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE if first else WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING if first else WorkflowIDConflictPolicy.FAIL,
            # An eager start would run on this worker's build, also where another one is current.
            request_eager_start=self._settings.deployment is None,
            task_timeout=TASK_TIMEOUT,
            static_summary=str(entity),
            rpc_timeout=_RPC,
        )

    async def _check_round(self, entity: Entity) -> None:
        """The run that is there must not be the last one's, whose final state is on record before it closes."""
        if entity.round == 0:
            return
        handle = self._client.get_workflow_handle(entity.workflow_id(self._settings.scope))
        memo = await (await handle.describe(rpc_timeout=_RPC)).memo_value(CARRIED, None, type_hint=Carried)
        if memo is not None and memo.round < entity.round:
            raise NotYet(f"the run of round {memo.round} is still closing")

    async def _set_aside(self, connection: Any, row: asyncpg.Record, end: BaseException) -> None:
        """One that can't be delivered now is in nobody's way (invariant 8)."""
        if isinstance(end, Undeliverable):
            says(log, "rejected", level=logging.ERROR, lifecycle=row["lifecycle"], id=row["id"], why=str(end))
            await connection.execute(query("reject"), row["seq"], str(end))
            await connection.execute(
                "update perdure.entity set attention = $3 where lifecycle = $1 and id = $2",
                row["lifecycle"],
                row["id"],
                f"rejected: {end}",
            )
            return
        if not isinstance(end, (NotForUs, NotYet, RPCError, TimeoutError, OSError)):
            log.error("delivering %s/%s failed", row["lifecycle"], row["id"], exc_info=end)
        await connection.execute(
            query("postpone"),
            row["seq"],
            str(end)[:500] or type(end).__name__,
        )

    def _count(self, rows: Sequence[asyncpg.Record], ends: Sequence[BaseException | None]) -> None:
        if self._meter is None:
            return
        for row, end in zip(rows, ends, strict=True):
            became = names.RELAY_DELIVERED if end is None else names.RELAY_POSTPONED
            metrics.count(
                self._meter, names.RELAY_REJECTED if isinstance(end, Undeliverable) else became, kind=row["kind"]
            )


def _with_what_is_new(committed: Any, read: Any) -> Any:
    """The input as this worker reads it, and what only newer workers know of: they may run it."""
    if not isinstance(committed, dict) or not isinstance(read, dict):
        return read
    return committed | {name: _with_what_is_new(committed.get(name), value) for name, value in read.items()}


def _loaded(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value
