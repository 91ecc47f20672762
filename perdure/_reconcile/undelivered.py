"""UNDELIVERED: a row has been in the outbox longer than a running relay would leave it there, so no relay runs.

A relay of the reconciliation's own delivers it, also beside others. A row that it cannot deliver either needs a
person.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import asyncpg
from temporalio.service import RPCError

from perdure._reconcile.context import Context
from perdure._reconcile.writing import fetch
from perdure._services.relay import Relay
from perdure._store.finding_kinds import UNDELIVERED
from perdure._store.sql import queries, shared
from perdure._text.shown import command
from perdure._workflow.messages import signals
from perdure.app import App
from perdure.contracts.keys import Entity
from perdure.errors import InvalidEntity, TemporalUnavailable
from perdure.telemetry.metrics import meter_of

query = queries(__name__)

MOST = 500
"""Number of rows that are tried again, and of findings, in one reconciliation."""
STANDSTILL = 30.0
"""Seconds without a delivery, after which the remaining rows are left."""
LONGEST = 1800.0
"""Seconds for all rows. Remaining rows are left to the next reconciliation."""
_PAUSE = 0.1
_TIME = "%Y-%m-%d %H:%M:%S %Z"
_ANSWER = timedelta(seconds=5)


async def undelivered(context: Context, cursor: object) -> None:
    """Deliver the rows that no relay delivers, and report the undeliverable ones.

    Args:
        cursor: number of rows that were delivered already.

    Raises:
        TemporalUnavailable: Temporal accepts nothing. No row is the cause.
    """
    before = await _overdue(context)
    tried = [
        row["seq"]
        for row in await context.pool.fetch(query("hurry"), context.younger_than, MOST, list(context.app.lifecycles))
    ]
    delivered = await _deliver(context, cursor if isinstance(cursor, int) else 0)
    await _report(context, delivered, before, await _overdue(context))
    for row in await fetch(context, shared("unknown_names")):
        if not _is_known(context.app, row):  # else no relay runs, which is reported already
            await _report_unknown(context, row)
    for row in await fetch(context, query("still_failing"), tried, context.younger_than, list(context.app.lifecycles)):
        await _report_failing(context, row)
    only = context.only
    of_one = (only.lifecycle, only.id) if only else (None, None)
    rejected = await fetch(context, query("rejected_of_open"), *of_one, MOST + 1)
    for row in rejected[:MOST]:
        await _report_rejected(context, row)
    if len(rejected) > MOST:
        what = f"more than {MOST} rows of open entities were rejected: only the oldest {MOST} are findings"
        await context.findings.report(UNDELIVERED, None, what, "perdure rejected list", about="rejected")


async def _deliver(context: Context, before: int) -> int:
    """Deliver until no row is overdue, or no delivery succeeds any more."""
    relay = Relay(
        context.pool, context.temporal_client, context.app, context.settings, meter_of(context.temporal_client)
    )
    try:
        return await _deliver_by(relay, context, before)
    finally:
        await relay.leave()


async def _deliver_by(relay: Relay, context: Context, before: int) -> int:
    end, moved, seen = time.monotonic() + LONGEST, time.monotonic(), 0
    while time.monotonic() < min(end, moved + STANDSTILL) and (await _overdue(context))["many"]:
        try:
            more = await relay.once()
        except TemporalUnavailable:
            await _check_answers(context)  # Temporal answers, so it refused only this row
            more = True
        if relay.delivered > seen:
            moved, seen = time.monotonic(), relay.delivered
        context.beat(before + seen)
        if not more:  # another relay may deliver them now
            await asyncio.sleep(_PAUSE)
    return before + seen


async def _report(context: Context, delivered: int, before: asyncpg.Record, left: asyncpg.Record) -> None:
    if delivered:
        what = f"{delivered} rows of the outbox were delivered"
        if before["many"]:
            what = f"{what} that no relay had looked at since {before['since']:{_TIME}}: does one run?"
        await context.findings.mended(UNDELIVERED, None, what, about="due")
    if left["many"]:
        what = f"{left['many']} rows of the outbox are due since {left['since']:{_TIME}}, and were not delivered"
        await context.findings.report(UNDELIVERED, None, what, query("outbox_waiting").strip(), about="due")


async def _overdue(context: Context) -> asyncpg.Record:
    [row] = await fetch(context, query("overdue"), context.younger_than, list(context.app.lifecycles))
    return row


async def _check_answers(context: Context) -> None:
    try:
        if await context.temporal_client.service_client.check_health(timeout=_ANSWER):
            return
    except (RPCError, TimeoutError, OSError) as error:
        raise TemporalUnavailable(f"Temporal does not answer: {error}") from error
    raise TemporalUnavailable("Temporal answers that it does not serve")


async def _report_failing(context: Context, row: asyncpg.Record) -> None:
    entity = _entity(row)
    if context.only in (None, entity):
        what = f"its {row['kind']} was tried {row['tries']} times since {row['since']:{_TIME}}: {row['error']}"
        show = command("show", row["lifecycle"], row["id"])
        advice = f"Does a worker with this lifecycle run, and is a workflow of it open? {show}"
        await context.findings.report(UNDELIVERED, entity, what, advice, about=row["kind"])


def _is_known(app: App, row: asyncpg.Record) -> bool:
    lifecycle = app.lifecycles.get(row["lifecycle"])
    return lifecycle is not None and (row["signal"] is None or row["signal"] in signals(lifecycle))


async def _report_unknown(context: Context, row: asyncpg.Record) -> None:
    since = f"{row['since']:{_TIME}}"
    what = f"{row['waiting']} rows of the outbox wait since {since}: no running worker has {row['name']}"
    advice = "Is the worker that has it deployed? If the name is wrong: operating.md, What waits for delivery?"
    about = f"unknown {row['lifecycle']} {row['signal'] or ''}".strip()
    await context.findings.report(UNDELIVERED, None, what, advice, about=about)


async def _report_rejected(context: Context, row: asyncpg.Record) -> None:
    what = f"its {row['kind']} was rejected: {row['reason']}"
    advice = (
        f"perdure rejected retry {row['seq']} --by YOU (a start: --input corrected.json), "
        f"or perdure rejected drop {row['seq']} --by YOU"
    )
    await context.findings.report(UNDELIVERED, _entity(row), what, advice, about=f"rejected {row['seq']}")


def _entity(row: asyncpg.Record) -> Entity | None:
    try:
        return Entity(row["lifecycle"], row["id"], row["generation"])
    except InvalidEntity:  # SQL accepts ids that Python refuses
        return None
