"""How everything stands, at a glance: from the database what is open, from Temporal its task queues."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure._operations.condition import POLLS, Condition
from perdure._operations.findings import finding_kinds
from perdure._operations.reach import EVERYTHING, Reach
from perdure._services.queues import Queue, queues, read_queue
from perdure._store.parked import ABOUT_DOUBT
from perdure._store.schema import Connection
from perdure._store.sql import queries, shared
from perdure.app import App
from perdure.errors import PerdureError
from perdure.settings import Settings

query = queries(__name__)

COUNTED = 10_000
"""Finished lifecycles that are counted; of more, an estimate is shown."""


async def read_overview(connection: Connection, reach: Reach = EVERYTHING) -> dict[str, Any]:
    """The figures of the database. The cost grows with open entities, never with finished ones.

    Args:
        reach: limits what is open, in doubt, rejected and found; the rest is of everything.
    """
    rows = [dict(row) for row in await connection.fetch(query("overview"), *reach.columns, ABOUT_DOUBT)]
    doubts = [dict(row) for row in await connection.fetch(query("overview_in_doubt"), *reach.columns, ABOUT_DOUBT)]
    waiting = await connection.fetchrow(shared("gauges_waiting"))
    finished = await connection.fetchrow(query("overview_finished"), COUNTED)
    rejected = await connection.fetchval(query("overview_rejected"), *reach.columns)
    refused = await connection.fetchrow(query("overview_refused"), *reach.columns)
    findings = await finding_kinds(connection, reach)
    reconcile = await connection.fetchrow(query("overview_reconciliation"))
    assert waiting is not None
    assert finished is not None
    outbox = {"waiting": waiting["waiting"], "lag_seconds": waiting["lag"], "due_later": waiting["later"]}
    open_ones = [each for each in Condition if each is not Condition.FINISHED]
    conditions = {each.value: sum(row[each.value.replace("-", "_")] for row in rows) for each in open_ones}
    return {
        "open": rows,
        "conditions": conditions | {Condition.FINISHED.value: finished["finished"]},
        "finished_estimated": finished["estimated"],
        "in_doubt": doubts,
        "outbox": {
            **outbox,
            "rejected": rejected,
            "rows_behind": waiting["behind"],
            "refused_row": refused and dict(refused),
        },
        "findings": findings,
        "reconciliation": dict(reconcile) if reconcile else None,
    }


async def read_flow(connection: Connection) -> dict[str, Any]:
    """How many have begun and ended so far, see `queries/overview_flow.sql`."""
    row = await connection.fetchrow(query("overview_flow"))
    assert row is not None
    return dict(row)


async def read_queues(client: Client | PerdureError, app: App | None, settings: Settings) -> list[dict[str, Any]]:
    """The backlog and the pollers of each task queue; `error` where Temporal did not answer, or is not this
    database's."""
    found = []
    for name, kind in queues(app, settings):
        where = {"task_queue": name, "kind": kind}
        try:
            if isinstance(client, PerdureError):
                raise client
            found.append(where | _shown(await read_queue(client, name, kind)))
        except PerdureError as error:
            found.append({**where, "error": str(error)})
        except RPCError as error:
            if error.status is RPCStatusCode.UNIMPLEMENTED:
                continue  # Temporal's time-skipping server answers, and has no such figures
            found.append({**where, "error": f"Temporal did not answer: {error.message}"})
    return found


def _shown(queue: Queue) -> dict[str, Any]:
    recent = datetime.now(UTC) - timedelta(seconds=POLLS)
    pollers = sorted(name for name, polled in queue.pollers.items() if polled > recent)
    return {"backlog": queue.backlog, "backlog_seconds": queue.age, "pollers": pollers, "error": None}
