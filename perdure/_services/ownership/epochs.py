"""The effect of a new epoch on starts: after a restore, or a takeover by another server, commits may be lost.

An entity of an older epoch may have a run with more acts than the database shows. If that run has ended, another one
leads the entity to its end, and settles each effect without a record. An entity of the newest epoch may have an id that
another entity had in the lost commits.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import asyncpg
from temporalio.client import WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy

_MICROSECONDS = 1_000_000
_RPC = timedelta(seconds=10)


def start_policies(row: asyncpg.Record) -> tuple[WorkflowIDReusePolicy, WorkflowIDConflictPolicy]:
    """The policies for the start of a row of the outbox (see `queries/lines.sql`): whether an id may be used again, and
    how an open run of this id is treated."""
    first, epoch = row["generation"] == 0, row["epoch"]
    reuse = WorkflowIDReusePolicy.REJECT_DUPLICATE  # the default would start an id with a closed run again
    if not first or row["again"] or (epoch is not None and epoch < row["newest_epoch"]):
        reuse = WorkflowIDReusePolicy.ALLOW_DUPLICATE
    conflict = WorkflowIDConflictPolicy.USE_EXISTING
    if not first or (0 < row["newest_epoch"] == epoch and row["record"] is None):
        conflict = WorkflowIDConflictPolicy.FAIL
    return reuse, conflict


async def why_not_ours(handle: WorkflowHandle[object, object], row: asyncpg.Record) -> str | None:
    """Why the present run is not this entity's run; None if it may be."""
    epoch = row["epoch"]
    if row["generation"] != 0 or not epoch or epoch < row["newest_epoch"]:
        return None
    begun = (await handle.describe(rpc_timeout=_RPC)).start_time
    restored = datetime.fromtimestamp(epoch / _MICROSECONDS, UTC)
    if begun >= restored:
        return None
    return (
        f"a run of this id was begun at {begun:%Y-%m-%d %H:%M:%S}, before the database was put back at "
        f"{restored:%Y-%m-%d %H:%M:%S}: the id was given twice. Start it with an id that was never used"
    )
