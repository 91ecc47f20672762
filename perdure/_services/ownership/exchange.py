"""Proposes the database's mark to the keeper, and writes the answer into the database."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta

import asyncpg
from temporalio.api.errordetails.v1 import NamespaceNotFoundFailure
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import (
    Client,
    RPCTimeoutOrCancelledError,
    WithStartWorkflowOperation,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from perdure._crypto.codec import reading_client
from perdure._pulse import Pulse
from perdure._services.guarded import GuardedRunner
from perdure._services.ownership.keeper import Keeper, keeper_id
from perdure._services.side_worker import side_worker
from perdure._store.bounds import bounds
from perdure._store.schema import Connection
from perdure._store.sql import queries
from perdure._wire.keeper import TEMPORAL_LOST, Decision, Incarnation, KeeperState, Proposal, Reply
from perdure.contracts.scopes import scope_setting
from perdure.errors import NotThisDatabase, TemporalUnavailable
from perdure.logs import log_event
from perdure.settings import Settings

query = queries(__name__)

log = logging.getLogger("perdure.ownership")

CLAIM = "state what this database is: perdure database claim --as copied|restored|moved"
WAYS_OUT = f"{CLAIM}; or if Temporal was put back to an earlier point: perdure recover --put-back"
_RPC = timedelta(seconds=5)
_NO_NAMESPACE = NamespaceNotFoundFailure.DESCRIPTOR


class Exchange:
    """Proposes the database's mark to the keeper, and writes the answer into the database.

    Args:
        client: the client of Temporal.
        settings: the scope.
    """

    def __init__(self, client: Client, settings: Settings) -> None:
        self._client = reading_client(plain(client))
        self._scope = settings.scope
        self._id = keeper_id(settings.scope)
        self._namespace_id: str | None = None

    @property
    def scope(self) -> str:
        """The scope as the database stores it; '' = none."""
        return self._scope or ""

    @property
    def namespace(self) -> str:
        """The namespace in Temporal."""
        return self._client.namespace

    async def namespace_id(self) -> str:
        """The id that distinguishes namespaces of one name in several Temporals; '' without the right to read it."""
        if self._namespace_id is None:
            try:
                found = await self._client.workflow_service.describe_namespace(
                    DescribeNamespaceRequest(namespace=self.namespace), timeout=_RPC
                )
                self._namespace_id = found.namespace_info.id
            except RPCError as error:
                if error.status is not RPCStatusCode.PERMISSION_DENIED:
                    raise
                self._namespace_id = ""
        return self._namespace_id

    async def check_binding(self, row: asyncpg.Record) -> None:
        """Raise unless the database is bound to this namespace and scope, or to none yet.

        Raises:
            NotThisDatabase: the database works with another namespace or scope.
        """
        if row["mark"] is None:
            return
        if row["scope"] != self.scope:
            raise NotThisDatabase(
                f"this database works with {scope_setting(row['scope'])}, and here is "
                f"{scope_setting(self.scope)}: set it right; or if this is a copy, {CLAIM}"
            )
        if known := await self._other_namespace(row):
            raise NotThisDatabase(
                f"this database works with another Temporal (namespace {row['namespace']!r}, {row['namespace_id']}; "
                f"here it is {self.namespace!r}, {known}): correct TEMPORAL_ADDRESS or TEMPORAL_NAMESPACE; or if that "
                "Temporal was lost for good: perdure recover; or if this is a copy: perdure database claim --as copied"
            )

    async def _other_namespace(self, row: asyncpg.Record) -> str | None:
        """Id of this namespace, if the database is known to work with another one; else None."""
        if row["namespace_id"] != self._namespace_id:
            self._namespace_id = None  # one of the same name may have been made since it was read
        known = await self.namespace_id()
        return known if known and row["namespace_id"] and row["namespace_id"] != known else None

    async def check_holder(self, row: asyncpg.Record) -> None:
        """Raise if the keeper has given the mark to another server. A worker must answer for the keeper.

        Raises:
            NotThisDatabase: another server works with this namespace and scope.
            TemporalUnavailable: Temporal gave no answer.
        """
        if row["mark"] is None:
            return
        kept = KeeperState()
        try:
            with _not_found_suppressed():
                handle = self._client.get_workflow_handle_for(Keeper.run, self._id)
                kept = await handle.query(Keeper.kept, rpc_timeout=_RPC)
        except RPCError as error:
            raise TemporalUnavailable(f"Temporal has not answered what database this is ({error})") from error
        here = incarnation_of(row)
        if kept.holder and (not here.is_of(kept.holder) or here.timeline < kept.holder.timeline):
            raise NotThisDatabase(
                f"another server works with this namespace and scope now ({kept.holder}), and this one is {here}: "
                f"set PERDURE_DATABASE_URL to that one; or {CLAIM}"
            )

    async def why_lost(self, row: asyncpg.Record) -> str | None:
        """Why this Temporal is not the one that the database worked with, or has lost its data; None = it is that one.

        Raises:
            NotThisDatabase: the scope is another one, so the question has no answer.
        """
        if row["mark"] is None:
            return None
        if row["scope"] == self.scope and (known := await self._other_namespace(row)):
            return f"namespace {row['namespace']!r} was {row['namespace_id']}, here {self.namespace!r} is {known}"
        await self.check_binding(row)
        with _not_found_suppressed():
            await self._client.get_workflow_handle(self._id).describe(rpc_timeout=_RPC)
            return None  # also if it is closed: a worker starts it again
        return f"it has no workflow {self._id}"

    async def propose(self, proposal: Proposal) -> Reply:
        """Send a proposal, and return the keeper's answer. The first database starts the keeper. A keeper that was
        ended from outside is started again with the state in its history, which proves as much as a keeper that never
        ended.

        Raises:
            TemporalUnavailable: Temporal gave no answer.
        """
        try:
            return await self._asked(proposal)
        except RPCTimeoutOrCancelledError as error:
            raise TemporalUnavailable(
                f"Temporal has not answered what database this is (workflow {self._id})"
            ) from error

    async def _asked(self, proposal: Proposal) -> Reply:
        handle = self._client.get_workflow_handle_for(Keeper.run, self._id)
        with _not_found_suppressed():
            return await handle.execute_update(Keeper.exchange, proposal, rpc_timeout=_RPC)
        kept = None
        with _not_found_suppressed():  # closed, or gone: a closed workflow answers queries from its history
            kept = await handle.query(Keeper.kept, rpc_timeout=_RPC)
        if kept is None and proposal.mark is not None and proposal.force is None:
            why = (
                f"{TEMPORAL_LOST} any more (workflow {self._id} is gone), so this may be a copy: "
                "if only that workflow was deleted: perdure database claim --as moved; "
                "if Temporal was lost and made anew: perdure recover"
            )
            return Reply(decision=Decision.STOP, why=why)
        reply = await self._client.execute_update_with_start_workflow(
            Keeper.exchange, proposal, start_workflow_operation=self._making(kept), rpc_timeout=_RPC
        )
        if kept is not None:
            what = "the keeper was ended from outside: it starts again from its last state"
            log_event(log, what, level=logging.WARNING, workflow=self._id)
        return reply

    async def write_down(self, connection: Connection, proposal: Proposal, reply: Reply) -> None:
        """Write the next mark into the database. The caller holds its row."""
        i = proposal.incarnation
        await connection.execute(
            query("exchanged"),
            *(proposal.mark, proposal.next, reply.epoch),
            *(i.system_identifier, i.database_oid, i.timeline, i.started),
            *(self.namespace, await self.namespace_id(), self.scope),
        )
        if reply.epoch > proposal.epoch:
            await connection.execute(bounds(statement="0"))
            await connection.execute(query("start_again"))

    @asynccontextmanager
    async def answering(self, pulse: Pulse | None = None) -> AsyncIterator[None]:
        """Run a worker for the keeper while the context lasts, as every worker process does. Its queue does not depend
        on the versions and queues of the lifecycles. Without a cache, no task waits for a killed worker."""
        worker = Worker(
            self._client,
            task_queue=self._id,
            workflows=[Keeper],
            workflow_runner=GuardedRunner(UnsandboxedWorkflowRunner()),
            max_cached_workflows=0,
            max_concurrent_workflow_task_polls=1,
        )
        async with side_worker(worker, "perdure keeper", pulse=pulse):
            yield

    def _making(self, kept: KeeperState | None) -> WithStartWorkflowOperation[Keeper, None]:
        return WithStartWorkflowOperation(
            Keeper.run,
            kept,
            id=self._id,
            task_queue=self._id,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            static_summary="perdure: which database works with this scope",
        )


@contextmanager
def _not_found_suppressed() -> Iterator[None]:
    """End the block if Temporal has no such workflow, or the workflow is closed. A missing namespace is an error: it
    does not show whether the workflow exists."""
    try:
        yield
    except RPCError as error:
        details = error.grpc_status.details
        if error.status is not RPCStatusCode.NOT_FOUND or any(each.Is(_NO_NAMESPACE) for each in details):
            raise


def incarnation_of(row: asyncpg.Record) -> Incarnation:
    """The running server, from a row of the query `database`."""
    return Incarnation(
        system_identifier=row["system_identifier"],
        database_oid=row["database_oid"],
        timeline=row["timeline"] or 0,
        started=row["started"],
    )


def plain(client: Client) -> Client:
    """The same connection without plugins, which would run a worker inside the worker."""
    return Client(client.service_client, namespace=client.namespace, data_converter=client.data_converter)
