"""The effect of a new epoch on starts: after a restore, or a takeover by another server, commits may be lost.

An entity of an older epoch may have a run with more acts than the database shows. If that run has ended, another one
leads the entity to its end, and settles each effect without a record. An entity may also have an id that another
entity had in the lost commits: the run of that one was born at another time.
"""

from __future__ import annotations

import asyncpg
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy

from perdure._wire.carried import Carried


def start_policies(row: asyncpg.Record) -> tuple[WorkflowIDReusePolicy, WorkflowIDConflictPolicy]:
    """The policies for the start of a row of the outbox (see `queries/lines.sql`): whether an id may be used again, and
    how an open run of this id is treated. Where it may be another entity's, the start fails, and the caller looks."""
    first = row["generation"] == 0
    reuse = WorkflowIDReusePolicy.REJECT_DUPLICATE  # the default would start an id with a closed run again
    if not first or row["again"] or is_older(row):
        reuse = WorkflowIDReusePolicy.ALLOW_DUPLICATE
    conflict = WorkflowIDConflictPolicy.FAIL
    if first and row["newest_epoch"] == 0:
        conflict = WorkflowIDConflictPolicy.USE_EXISTING
    return reuse, conflict


def is_older(row: asyncpg.Record) -> bool:
    """Whether an epoch has begun since the entity was started."""
    return row["epoch"] is not None and bool(row["epoch"] < row["newest_epoch"])


def why_not_ours(run: Carried, row: asyncpg.Record) -> str | None:
    """Why a run of this id is not a run of the row's entity; None if it may be."""
    if run.generation != row["generation"] or None in (run.born, row["born"]) or run.born == row["born"]:
        return None
    return (
        f"a run of this id is of an entity that was started at {run.born:%Y-%m-%d %H:%M:%S}, in commits that the "
        "database has lost: the id was given twice. Start it with an id that was never used"
    )
