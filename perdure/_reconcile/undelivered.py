"""UNDELIVERED: what was committed and lies in the outbox longer than any relay would leave it: no relay runs.

A relay of the clean-up's own delivers it, also beside others. What can't be delivered by that one either is a person's.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from datetime import timedelta

import asyncpg
from temporalio.service import RPCError

from perdure._reconcile.ground import Ground
from perdure._reconcile.writing import fetch
from perdure._services.relay import Relay
from perdure._store.finding_kinds import UNDELIVERED
from perdure._store.sql import queries, shared
from perdure._workflow.messages import signals
from perdure.app import App
from perdure.contracts.keys import Entity
from perdure.errors import EngineUnavailable, InvalidEntity
from perdure.telemetry.metrics import meter_of

query = queries(__name__)

MOST = 500
"""Rows that are tried anew, and findings, in one clean-up."""
STANDSTILL = 30.0
"""Seconds without a delivery after which the rest is left."""
LONGEST = 1800.0
"""Seconds for all of it: whatever is left then is the next clean-up's."""
_PAUSE = 0.1
_TIME = "%Y-%m-%d %H:%M:%S %Z"
_ANSWER = timedelta(seconds=5)


async def undelivered(ground: Ground, cursor: object) -> None:
    """Deliver what no relay does, and report what can't be delivered.

    Args:
        cursor: how many rows it has delivered already.

    Raises:
        EngineUnavailable: Temporal takes nothing, which is nobody's fault here.
    """
    before = await _overdue(ground)
    tried = [
        row["seq"]
        for row in await ground.pool.fetch(query("hurry"), ground.younger_than, MOST, list(ground.app.lifecycles))
    ]
    delivered = await _deliver(ground, cursor if isinstance(cursor, int) else 0)
    await _say(ground, delivered, before, await _overdue(ground))
    for row in await fetch(ground, shared("unknown_names")):
        if not _is_known(ground.app, row):  # else no relay runs, and that is said already
            await _report_unknown(ground, row)
    for row in await fetch(ground, query("still_failing"), tried, ground.younger_than, list(ground.app.lifecycles)):
        await _report_failing(ground, row)
    only = ground.only
    of_one = (only.lifecycle, only.id) if only else (None, None)
    for row in await fetch(ground, query("rejected_of_open"), *of_one, MOST):
        await _report_rejected(ground, row)


async def _deliver(ground: Ground, before: int) -> int:
    """Deliver until nothing is overdue, or nothing moves any more."""
    relay = Relay(ground.pool, ground.engine, ground.app, ground.settings, meter_of(ground.engine))
    try:
        return await _deliver_by(relay, ground, before)
    finally:
        await relay.leave()


async def _deliver_by(relay: Relay, ground: Ground, before: int) -> int:
    end, moved, seen = time.monotonic() + LONGEST, time.monotonic(), 0
    while time.monotonic() < min(end, moved + STANDSTILL) and (await _overdue(ground))["many"]:
        try:
            more = await relay.once()
        except EngineUnavailable:
            await _check_answers(ground)  # it does: so it was only this row that it would not take
            more = True
        if relay.delivered > seen:
            moved, seen = time.monotonic(), relay.delivered
        ground.beat(before + seen)
        if not more:  # another relay may have them at this moment
            await asyncio.sleep(_PAUSE)
    return before + seen


async def _say(ground: Ground, delivered: int, before: asyncpg.Record, left: asyncpg.Record) -> None:
    if delivered:
        what = f"{delivered} rows of the outbox were delivered"
        if before["many"]:
            what = f"{what} that no relay had looked at since {before['since']:{_TIME}}: does one run?"
        await ground.findings.mended(UNDELIVERED, None, what, about="due")
    if left["many"]:
        what = f"{left['many']} rows of the outbox are due since {left['since']:{_TIME}}, and were not delivered"
        advice = (
            "select lifecycle, id, kind, tries, error, not_before from perdure.outbox order by not_before limit 50;"
        )
        await ground.findings.report(UNDELIVERED, None, what, advice, about="due")


async def _overdue(ground: Ground) -> asyncpg.Record:
    [row] = await fetch(ground, query("overdue"), ground.younger_than, list(ground.app.lifecycles))
    return row


async def _check_answers(ground: Ground) -> None:
    try:
        if await ground.engine.service_client.check_health(timeout=_ANSWER):
            return
    except (RPCError, TimeoutError, OSError) as error:
        raise EngineUnavailable(f"Temporal does not answer: {error}") from error
    raise EngineUnavailable("Temporal says that it does not serve")


async def _report_failing(ground: Ground, row: asyncpg.Record) -> None:
    entity = _entity(row)
    if ground.only in (None, entity):
        what = f"its {row['kind']} was tried {row['tries']} times since {row['since']:{_TIME}}: {row['error']}"
        show = shlex.join(["perdure", "show", row["lifecycle"], row["id"]])
        advice = f"Does a worker run that knows this lifecycle, and is a workflow of it open? {show}"
        await ground.findings.report(UNDELIVERED, entity, what, advice, about=row["kind"])


def _is_known(app: App, row: asyncpg.Record) -> bool:
    lifecycle = app.lifecycles.get(row["lifecycle"])
    return lifecycle is not None and (row["signal"] is None or row["signal"] in signals(lifecycle))


async def _report_unknown(ground: Ground, row: asyncpg.Record) -> None:
    since = f"{row['since']:{_TIME}}"
    what = f"{row['waiting']} rows of the outbox wait since {since}: no worker that runs knows {row['name']}"
    advice = "Is the worker that knows it deployed? If the name is wrong: operating.md, What waits for delivery?"
    about = f"unknown {row['lifecycle']} {row['signal'] or ''}".strip()
    await ground.findings.report(UNDELIVERED, None, what, advice, about=about)


async def _report_rejected(ground: Ground, row: asyncpg.Record) -> None:
    what = f"its {row['kind']} was rejected: {row['reason']}"
    advice = (
        f"perdure rejected retry {row['seq']} --by YOU (a start: --input corrected.json), "
        f"or perdure rejected drop {row['seq']} --by YOU"
    )
    await ground.findings.report(UNDELIVERED, _entity(row), what, advice, about=f"rejected {row['seq']}")


def _entity(row: asyncpg.Record) -> Entity | None:
    try:
        return Entity(row["lifecycle"], row["id"], row["round"])
    except InvalidEntity:  # SQL lets through what Python would not
        return None
