"""Continues every open entity whose workflow is gone from its record, for example after the loss of Temporal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import asyncpg
import temporalio.client
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from perdure._reconcile.importing.apart import apart
from perdure._reconcile.writing import HELD
from perdure._store.bounds import bounds
from perdure._store.postgres import Pool, answering
from perdure._store.sql import queries
from perdure.contracts.keys import Entity
from perdure.errors import InvalidEntity, TemporalUnavailable

query = queries(__name__)

PAGE = 200
AT_ONCE = 32
"""Requests to Temporal at the same time."""
_RPC = timedelta(seconds=10)
_PUT_BACK = "Temporal was put back to an earlier point: perdure recover starts it again from its record"


@dataclass(slots=True)
class Recovered:
    """The result of a recovery.

    Attributes:
        open: number of checked entities.
        running: entities with an open workflow, which are left alone.
        terminated: entities whose open workflow is terminated, because Temporal was put back.
        started: entities that are started again.
        ended: entities with a closed workflow, which are left to the reconciliation.
        held: entities that another transaction held for 2 s, which the next recovery may start again.
    """

    open: int = 0
    running: int = 0
    terminated: int = 0
    started: int = 0
    ended: int = 0
    held: int = 0

    @property
    def waiting(self) -> int:
        """Entities whose start is on its way or was rejected, or that moved meanwhile."""
        return self.open - self.running - self.started - self.ended - self.held

    def note_held(self, error: Exception) -> None:
        """Count an entity that PostgreSQL refuses to start again, if another session has it. Else raise the error."""
        if not isinstance(error, HELD):
            raise error
        self.held += 1


async def recover(
    pool: Pool,
    temporal_client: temporalio.client.Client,
    scope: str | None,
    *,
    by: str,
    why: str,
    put_back: bool = False,
    report: Callable[[Recovered], None] = lambda _: None,
) -> Recovered:
    """Start the entities again that have no workflow in Temporal. It can be stopped at any time, and run again.

    Args:
        by, why: for the record.
        put_back: Temporal was put back to an earlier point. Open workflows lack the messages that they had received
            since, so they are terminated, and their entities are started again as well.
        report: receives the progress after each page.

    Raises:
        DatabaseUnavailable: PostgreSQL does not answer.
        TemporalUnavailable: Temporal does not answer.
    """
    seen, last = Recovered(), ("", "")
    while True:
        with answering():
            page = await pool.fetch(query("open_page"), *last, PAGE)
        if not page:
            return seen
        gone, closed = await _without_workflow(temporal_client, scope, page, seen, put_back=put_back)
        still_open = await _still_open(pool, closed) if closed else 0
        seen.ended += still_open
        begun = await apart(gone, lambda some: _start_again(pool, some, by, why), lambda _: seen.note_held)
        seen.started += len(begun)
        seen.open += len(page) - (len(closed) - still_open)
        last = page[-1]["lifecycle"], page[-1]["id"]
        report(seen)


async def _still_open(pool: Pool, closed: Sequence[asyncpg.Record]) -> int:
    """How many of the entities with a closed workflow are open. The others have ended since their page was read: a
    workflow closes only after its end is on record."""
    columns = ([row[name] for row in closed] for name in ("lifecycle", "id", "generation"))
    with answering():
        count: int = await pool.fetchval(query("count_still_open"), *columns)
    return count


async def _start_again(pool: Pool, gone: Sequence[asyncpg.Record], by: str, why: str) -> list[asyncpg.Record]:
    columns = ([row[name] for row in gone] for name in ("lifecycle", "id", "generation", "version"))
    with answering():
        async with pool.acquire(timeout=10) as connection, connection.transaction():
            await connection.execute(bounds(lock="2s", statement="60s"))
            return await connection.fetch(query("start_these_again"), *columns, by, why)


async def _without_workflow(
    temporal_client: temporalio.client.Client,
    scope: str | None,
    page: Sequence[asyncpg.Record],
    seen: Recovered,
    *,
    put_back: bool,
) -> tuple[list[asyncpg.Record], list[asyncpg.Record]]:
    """The entities without a workflow in Temporal, or whose workflow was terminated because Temporal was put back; and
    those whose workflow is closed. The others are counted."""
    room = asyncio.Semaphore(AT_ONCE)

    async def terminate_if_put_back(row: asyncpg.Record) -> WorkflowExecutionStatus | None:
        """Returns the status of a workflow that stays as it is; None = the entity is to be started again."""
        try:
            handle = temporal_client.get_workflow_handle(Entity(row["lifecycle"], row["id"]).workflow_id(scope))
            async with room:
                found = (await handle.describe(rpc_timeout=_RPC)).status
                if not put_back:
                    return found
                if found is WorkflowExecutionStatus.RUNNING:
                    await handle.terminate(reason=_PUT_BACK, rpc_timeout=_RPC)
                    seen.terminated += 1
                    return None
                return None if found is WorkflowExecutionStatus.TERMINATED else found
        except InvalidEntity:  # SQL accepts ids that Python refuses: the relay will reject it with the reason
            return None
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            name = f"{row['lifecycle']}/{row['id']}"
            raise TemporalUnavailable(f"Temporal does not answer whether {name} runs: {error}; run it again") from error

    found = await asyncio.gather(*(terminate_if_put_back(row) for row in page))
    seen.running += sum(each is WorkflowExecutionStatus.RUNNING for each in found)
    rows = [*zip(page, found, strict=True)]
    closed = [row for row, each in rows if each not in (WorkflowExecutionStatus.RUNNING, None)]
    return [row for row, each in rows if each is None], closed
