"""Says to the keeper what this database is, and writes down what it answers."""

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

from perdure._pulse import Pulse
from perdure._services.ownership.keeper import Keeper, keeper_id
from perdure._services.side_worker import side_worker
from perdure._store.bounds import bounds
from perdure._store.schema import Connection
from perdure._store.sql import queries
from perdure._wire.keeper import Incarnation, Kept, Proposal, Reply, Word
from perdure.errors import NotThisDatabase, TemporalUnavailable
from perdure.logs import says
from perdure.settings import Settings

query = queries(__name__)

log = logging.getLogger("perdure.ownership")

WAYS_OUT = "state what this database is: perdure database claim --as copied|restored|moved"
_RPC = timedelta(seconds=5)
_NO_NAMESPACE = NamespaceNotFoundFailure.DESCRIPTOR


class Exchange:
    """Says to the keeper what this database is, and writes down what it answers.

    Args:
        client: Temporal.
        settings: the scope.
    """

    def __init__(self, client: Client, settings: Settings) -> None:
        self._client = plain(client)
        self._scope = settings.scope
        self._id = keeper_id(settings.scope)
        self._namespace_id: str | None = None

    @property
    def scope(self) -> str:
        """As the database has it: '' = none."""
        return self._scope or ""

    @property
    def namespace(self) -> str:
        """Of Temporal."""
        return self._client.namespace

    async def namespace_id(self) -> str:
        """What tells a namespace from another Temporal's of the same name; '' where we may not ask."""
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
            NotThisDatabase: it works with others.
        """
        if row["mark"] is None:
            return
        if row["scope"] != self.scope:
            raise NotThisDatabase(
                f"this database works with PERDURE_SCOPE={row['scope'] or 'none'!r}, this worker with "
                f"{self.scope or 'none'!r}: set it right; or if this is a copy, {WAYS_OUT}"
            )
        if known := await self._other_namespace(row):
            raise NotThisDatabase(
                f"this database works with another Temporal (namespace {row['namespace']!r}, {row['namespace_id']}; "
                f"here it is {self.namespace!r}, {known}): correct TEMPORAL_ADDRESS or TEMPORAL_NAMESPACE; or if that "
                "Temporal was lost for good: perdure recover; or if this is a copy: perdure database claim --as copied"
            )

    async def _other_namespace(self, row: asyncpg.Record) -> str | None:
        """Id of the namespace here, where it is known not to be the one that the database works with."""
        known = await self.namespace_id()
        return known if known and row["namespace_id"] and row["namespace_id"] != known else None

    async def why_lost(self, row: asyncpg.Record) -> str | None:
        """Why this Temporal can't be the one that the database worked with, or has lost all; None = it is.

        Raises:
            NotThisDatabase: the scope is another one, so nothing can be said.
        """
        if row["mark"] is None:
            return None
        if row["scope"] == self.scope and (known := await self._other_namespace(row)):
            return f"namespace {row['namespace']!r} was {row['namespace_id']}, here {self.namespace!r} is {known}"
        await self.check_binding(row)
        with _not_found_suppressed():
            await self._client.get_workflow_handle(self._id).describe(rpc_timeout=_RPC)
            return None  # also where it is closed: a worker starts it again
        return f"it has no workflow {self._id}"

    async def propose(self, said: Proposal) -> Reply:
        """The keeper's answer; the first database makes the keeper. One that was ended from outside is started again
        with what its history shows: that proves as much as a keeper that was never ended.

        Raises:
            TemporalUnavailable: no answer.
        """
        try:
            return await self._asked(said)
        except RPCTimeoutOrCancelledError as error:
            raise TemporalUnavailable(
                f"Temporal has not answered what database this is (workflow {self._id})"
            ) from error

    async def _asked(self, said: Proposal) -> Reply:
        handle = self._client.get_workflow_handle_for(Keeper.run, self._id)
        with _not_found_suppressed():
            return await handle.execute_update(Keeper.exchange, said, rpc_timeout=_RPC)
        kept = None
        with _not_found_suppressed():  # closed, or gone: a closed workflow answers queries from its history
            kept = await handle.query(Keeper.kept, rpc_timeout=_RPC)
        if kept is None and said.mark is not None and said.force is None:
            why = (
                f"Temporal has no workflow {self._id} any more, which could prove that this is no copy: "
                "if only that workflow was deleted: perdure database claim --as moved; "
                "if Temporal was lost and made anew: perdure recover"
            )
            return Reply(word=Word.STOP, why=why)
        reply = await self._client.execute_update_with_start_workflow(
            Keeper.exchange, said, start_workflow_operation=self._making(kept), rpc_timeout=_RPC
        )
        if kept is not None:
            what = "the keeper was ended from outside: it starts again from its last state"
            says(log, what, level=logging.WARNING, workflow=self._id)
        return reply

    async def write_down(self, connection: Connection, said: Proposal, reply: Reply) -> None:
        """The database has the next mark now; the caller has its row locked."""
        i = said.incarnation
        await connection.execute(
            query("exchanged"),
            *(said.mark, said.next, reply.epoch),
            *(i.system_identifier, i.database_oid, i.timeline, i.started),
            *(self.namespace, await self.namespace_id(), self.scope),
        )
        if reply.epoch > said.epoch:
            await connection.execute(bounds(statement="0"))
            await connection.execute(query("start_again"))

    @asynccontextmanager
    async def answering(self, pulse: Pulse | None = None) -> AsyncIterator[None]:
        """Answer for the keeper while the context lasts, as every worker does: on a queue of its own, whatever versions
        and queues the lifecycles use. Without a cache no killed worker is waited for."""
        worker = Worker(
            self._client,
            task_queue=self._id,
            workflows=[Keeper],
            workflow_runner=UnsandboxedWorkflowRunner(),
            max_cached_workflows=0,
            max_concurrent_workflow_task_polls=1,
        )
        async with side_worker(worker, "perdure keeper", pulse=pulse):
            yield

    def _making(self, kept: Kept | None) -> WithStartWorkflowOperation[Keeper, None]:
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
    """Temporal has no such workflow, or it is closed: the block ends, and what follows it deals with that. A namespace
    that is missing says nothing about the workflow."""
    try:
        yield
    except RPCError as error:
        details = error.grpc_status.details
        if error.status is not RPCStatusCode.NOT_FOUND or any(each.Is(_NO_NAMESPACE) for each in details):
            raise


def incarnation_of(row: asyncpg.Record) -> Incarnation:
    """The server that runs now, from the query `database`."""
    return Incarnation(
        system_identifier=row["system_identifier"],
        database_oid=row["database_oid"],
        timeline=row["timeline"] or 0,
        started=row["started"],
    )


def plain(client: Client) -> Client:
    """The same connection without the plugins: they would run a worker inside the worker."""
    return Client(client.service_client, namespace=client.namespace, data_converter=client.data_converter)
