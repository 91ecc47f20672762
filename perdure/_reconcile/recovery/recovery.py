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

from perdure._store.bounds import bounds
from perdure._store.postgres import Pool, answering
from perdure._store.sql import queries
from perdure.contracts.keys import Entity
from perdure.errors import InvalidEntity, NotNow, TemporalUnavailable

query = queries(__name__)

PAGE = 200
AT_ONCE = 32
"""Requests to Temporal at the same time."""
_RPC = timedelta(seconds=10)


@dataclass(slots=True)
class Recovered:
    """The result of a recovery.

    Attributes:
        open: number of checked entities.
        running: entities with an open workflow, which are left alone.
        started: entities that are started again.
        waiting: entities whose start is on its way or was rejected, or that moved meanwhile.
        ended: entities with a closed workflow, which are left to the reconciliation.
    """

    open: int = 0
    running: int = 0
    started: int = 0
    waiting: int = 0
    ended: int = 0


async def recover(
    pool: Pool,
    temporal_client: temporalio.client.Client,
    scope: str | None,
    *,
    by: str,
    why: str,
    report: Callable[[Recovered], None] = lambda _: None,
) -> Recovered:
    """Start the entities again that have no workflow in Temporal. It can be stopped at any time, and run again.

    Args:
        by, why: for the record.
        report: receives the progress after each page.

    Raises:
        DatabaseUnavailable: PostgreSQL does not answer.
        TemporalUnavailable: Temporal does not answer.
        NotNow: another session holds an entity for long.
    """
    seen, last = Recovered(), ("", "")
    while True:
        with answering():
            page = await pool.fetch(query("open_page"), *last, PAGE)
        if not page:
            return seen
        gone = await _without_workflow(temporal_client, scope, page, seen)
        if gone:
            begun = await _start_again(pool, gone, by, why)
            seen.started += begun
            seen.waiting += len(gone) - begun
        seen.open += len(page)
        last = page[-1]["lifecycle"], page[-1]["id"]
        report(seen)


async def _start_again(pool: Pool, gone: Sequence[asyncpg.Record], by: str, why: str) -> int:
    columns = ([row[name] for row in gone] for name in ("lifecycle", "id", "generation", "version"))
    try:
        with answering():
            async with pool.acquire(timeout=10) as connection, connection.transaction():
                await connection.execute(bounds(lock="10s", statement="60s"))
                return len(await connection.fetch(query("start_these_again"), *columns, by, why))
    except asyncpg.LockNotAvailableError as error:
        first = f"{gone[0]['lifecycle']}/{gone[0]['id']}"
        raise NotNow(f"one of the {len(gone)} from {first} on is held by another transaction: run it again") from error


async def _without_workflow(
    temporal_client: temporalio.client.Client, scope: str | None, page: Sequence[asyncpg.Record], seen: Recovered
) -> list[asyncpg.Record]:
    """The entities without a workflow in Temporal; the others are counted."""
    room = asyncio.Semaphore(AT_ONCE)

    async def status(row: asyncpg.Record) -> WorkflowExecutionStatus | None:
        try:
            workflow_id = Entity(row["lifecycle"], row["id"]).workflow_id(scope)
            async with room:
                return (await temporal_client.get_workflow_handle(workflow_id).describe(rpc_timeout=_RPC)).status
        except InvalidEntity:  # SQL accepts ids that Python refuses: the relay will reject it with the reason
            return None
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            name = f"{row['lifecycle']}/{row['id']}"
            raise TemporalUnavailable(f"Temporal does not answer whether {name} runs: {error}; run it again") from error

    found = await asyncio.gather(*(status(row) for row in page))
    seen.running += sum(each is WorkflowExecutionStatus.RUNNING for each in found)
    seen.ended += sum(each not in (WorkflowExecutionStatus.RUNNING, None) for each in found)
    return [row for row, each in zip(page, found, strict=True) if each is None]
