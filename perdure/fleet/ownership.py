"""Exchanges the database's mark with Temporal: so a copy of it, or an older state, is told before it sends anything.

At a worker's start, now and then by one worker of the fleet, and at once when PostgreSQL says that it was not verified
since its start.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, RPCTimeoutOrCancelledError, WithStartWorkflowOperation
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from perdure.errors import EngineUnavailable, NotThisDatabase
from perdure.fleet.service import TROUBLE, Service
from perdure.logs import says
from perdure.queries import query
from perdure.schema import Connection
from perdure.settings import Settings
from perdure.store.postgres import Pool
from perdure.workflow.keeper import TICK, Incarnation, Keeper, Proposal, Reply, Word, keeper_id

log = logging.getLogger("perdure.ownership")

NOT_VERIFIED = "not verified"
"""What `perdure.database_trouble` says until the mark was exchanged."""
_RPC = timedelta(seconds=5)
_AT_START = 15.0
"""Seconds for which a worker that starts waits for Temporal's word."""
_SAY_AGAIN = 60.0
WAYS_OUT = "say what this database is: perdure adopt-database --as copied|restored|moved"


class Exchange:
    """Says to the keeper what this database is, and writes down what it answers.

    Args:
        client: Temporal.
        settings: the scope.
    """

    def __init__(self, client: Client, settings: Settings) -> None:
        self._client = _plain(client)
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
        known = await self.namespace_id()
        if known and row["namespace_id"] and row["namespace_id"] != known:
            raise NotThisDatabase(
                f"this database works with another Temporal (namespace {row['namespace']!r}, {row['namespace_id']}; "
                f"here it is {self.namespace!r}, {known}): correct TEMPORAL_ADDRESS or TEMPORAL_NAMESPACE; or if that "
                "Temporal was lost for good: perdure adopt-database --as moved; or if this is a copy: --as copied"
            )

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


class Ownership(Service):
    """Sees to it that the database's mark is exchanged.

    Args:
        pool: the app's database.
        exchange: with whom.
        verified: called when writes may go again.
    """

    LONGEST_PAUSE = 2.0

    def __init__(self, pool: Pool, exchange: Exchange, verified: Callable[[], None] = lambda: None) -> None:
        super().__init__("ownership", every=min(1.0, TICK / 2))
        self._pool = pool
        self._exchange = exchange
        self._verified = verified
        self._tick = TICK
        self._came_from: Incarnation | None = None
        self._said: tuple[str, float] = "", 0.0

    async def claim(self) -> None:
        """Before a worker takes work: bind the database, or make sure that it is the one.

        Raises:
            NotThisDatabase: it is not; the message says what to do.
            EngineUnavailable: Temporal does not answer, and nothing may begin before it has.
        """
        until = time.monotonic() + _AT_START
        while True:
            row = await self._row()
            await self._exchange.check_binding(row)
            if row["trouble"] not in (None, NOT_VERIFIED):
                raise NotThisDatabase(f"{row['trouble']}: {WAYS_OUT}")
            verified = row["mark"] is not None and row["trouble"] is None
            if verified and row["age"] < self._tick:
                return
            reply, why = None, "another worker asks"
            try:
                reply = await self._swap()
            except NotThisDatabase:
                raise
            except TROUBLE as error:
                why = repr(error)
            late = reply is None and (verified or time.monotonic() > until)
            if late and row["mark"] is None:
                raise EngineUnavailable(f"Temporal has not answered what database this is: {why}")
            if late or (reply is not None and reply.word is Word.WAIT):
                return  # where it is not verified no write goes
            if reply is None:
                await asyncio.sleep(0.1)

    async def once(self) -> bool:
        """Exchange the mark if it is time, or if nothing goes before."""
        row = await self._row()
        if row["trouble"] not in (None, NOT_VERIFIED):
            self._say(row["trouble"])
            return False
        if row["trouble"] is None and row["mark"] is not None:
            self._came_from = incarnation_of(row)
            if row["age"] < self._tick:
                return False
        await self._swap()
        return False

    async def _swap(self) -> Reply | None:
        """One exchange; None if another worker makes it now."""
        async with self._pool.acquire(timeout=5) as connection, connection.transaction():
            if not await connection.fetchval("select true from perdure.database for update skip locked"):
                return None
            row = await connection.fetchrow(query("database"))
            assert row is not None
            if row["stopped"] or (row["trouble"] is None and row["mark"] and row["age"] < self._tick):
                return None
            await self._exchange.check_binding(row)
            said = self._proposal(row)
            reply = await self._exchange.propose(said)
            if reply.word is Word.AGAIN:
                row = await connection.fetchrow(query("database"))
                assert row is not None
                said = self._proposal(row).model_copy(update={"answer": reply.question})
                reply = await self._exchange.propose(said)
            await self._obey(connection, said, reply)
        if reply.word is Word.GO:
            self._came_from = said.incarnation
            if row["trouble"] is not None or row["mark"] is None:
                says(log, "verified", database=str(said.incarnation), epoch=reply.epoch)
                self._verified()
        elif reply.word is Word.STOP and row["mark"] is None:
            raise NotThisDatabase(f"{reply.why}: choose another PERDURE_SCOPE; or {WAYS_OUT}")
        else:
            self._say(reply.why)
        return reply

    async def _obey(self, connection: Connection, said: Proposal, reply: Reply) -> None:
        if reply.word is Word.GO:
            await self._exchange.write_down(connection, said, reply)
        elif reply.word is Word.STOP and said.mark is not None:
            await connection.execute("update perdure.database set stopped = $1", reply.why)

    def _proposal(self, row: asyncpg.Record) -> Proposal:
        return Proposal(
            mark=row["mark"],
            next=secrets.token_hex(16),
            incarnation=incarnation_of(row),
            epoch=row["epoch"],
            came_from=self._came_from,
        )

    async def _row(self) -> asyncpg.Record:
        async with self._pool.acquire(timeout=5) as connection:
            row = await connection.fetchrow(query("database"))
        assert row is not None
        return row

    def _say(self, why: str) -> None:
        said, at = self._said
        if why != said or time.monotonic() > at + _SAY_AGAIN:
            says(log, "nothing is sent from here", level=logging.ERROR, why=f"{why}; {WAYS_OUT}")
            self._said = why, time.monotonic()


def incarnation_of(row: asyncpg.Record) -> Incarnation:
    """The server that runs now, from the query `database`."""
    return Incarnation(
        system_identifier=row["system_identifier"],
        database_oid=row["database_oid"],
        timeline=row["timeline"] or 0,
        started=row["started"],
    )


def _plain(client: Client) -> Client:
    """The same connection without the plugins: they would run a worker inside the worker."""
    return Client(client.service_client, namespace=client.namespace, data_converter=client.data_converter)
