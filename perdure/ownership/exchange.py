"""Says to the keeper what this database is, and writes down what it answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import (
    Client,
    RPCTimeoutOrCancelledError,
    WithStartWorkflowOperation,
    WorkflowExecutionStatus,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from perdure.errors import EngineUnavailable, NotThisDatabase
from perdure.ownership.keeper import Incarnation, Keeper, Proposal, Reply, Word, keeper_id
from perdure.queries import query
from perdure.schema import Connection
from perdure.settings import Settings

WAYS_OUT = "say what this database is: perdure adopt-database --as copied|restored|moved"
_RPC = timedelta(seconds=5)


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
                "Temporal was lost for good: perdure recover; or if this is a copy: perdure adopt-database --as copied"
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
        try:
            keeper = await self._client.get_workflow_handle(self._id).describe(rpc_timeout=_RPC)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return f"it has no workflow {self._id}"
        return None if keeper.status is WorkflowExecutionStatus.RUNNING else f"its workflow {self._id} is closed"

    async def propose(self, said: Proposal) -> Reply:
        """The keeper's answer; the first database makes the keeper.

        Raises:
            EngineUnavailable: no answer.
        """
        try:
            if said.mark is None or said.force is not None:
                return await self._client.execute_update_with_start_workflow(
                    Keeper.exchange, said, start_workflow_operation=self._making(), rpc_timeout=_RPC
                )
            handle = self._client.get_workflow_handle_for(Keeper.run, self._id)
            return await handle.execute_update(Keeper.exchange, said, rpc_timeout=_RPC)
        except RPCTimeoutOrCancelledError as error:
            raise EngineUnavailable(f"Temporal has not answered what database this is (workflow {self._id})") from error
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            why = f"Temporal has no workflow {self._id} any more: it was ended, or Temporal was lost and made anew"
            return Reply(word=Word.STOP, why=why)

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
            await connection.execute("set local statement_timeout = 0")
            await connection.execute(query("start_again"))

    @asynccontextmanager
    async def answering(self) -> AsyncIterator[None]:
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
        running = asyncio.create_task(worker.run(), name="perdure keeper")
        try:
            yield
        finally:
            stopping = asyncio.create_task(worker.shutdown())
            await asyncio.wait({running, stopping}, timeout=2)
            for task in (running, stopping):
                task.cancel()
            await asyncio.gather(running, stopping, return_exceptions=True)

    def _making(self) -> WithStartWorkflowOperation[Keeper, None]:
        return WithStartWorkflowOperation(
            Keeper.run,
            None,
            id=self._id,
            task_queue=self._id,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            static_summary="perdure: which database works with this scope",
        )


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
