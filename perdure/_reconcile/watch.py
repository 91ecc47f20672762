"""The service that notices within a minute that the workflow of an open entity was ended outside Perdure, or is gone.

Temporal lists the executions that have closed in such a way since the last look. It does not list a deleted execution,
so open entities are also compared with Temporal, page by page, for a part of each turn. The workers of a database take
turns by the row of `perdure.watch`, so that one looks at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import asyncpg
from temporalio.client import Client, WorkflowExecution
from temporalio.common import MetricMeter

from perdure._reconcile.closed import is_open_after_all
from perdure._reconcile.context import Context
from perdure._reconcile.entities import AT_ONCE, PAGE, alone, listed_as_open
from perdure._reconcile.findings import Findings
from perdure._reconcile.row import Row
from perdure._reconcile.writing import fetch
from perdure._services.service import Service
from perdure._store.postgres import Pool
from perdure._store.sql import queries
from perdure.app import App
from perdure.contracts.scopes import workflow_prefix
from perdure.errors import InvalidEntity
from perdure.settings import Settings
from perdure.telemetry import names
from perdure.telemetry.metrics import count

query = queries(__name__)

EVERY = 20.0
"""Seconds between two turns of a worker."""
_TURN = timedelta(seconds=15)
"""The shortest time between two turns of all workers together."""
SHARE = 0.05
"""Part of the time between two turns for which open entities are compared."""
LAG = timedelta(minutes=2)
"""The largest lag of Temporal's lists, plus the largest difference between the clocks of Temporal and PostgreSQL."""
_YOUNG = timedelta(minutes=1)
_CLOSED = 1000
_RPC = timedelta(seconds=20)


@dataclass(frozen=True, slots=True)
class _Place:
    lifecycle: str = ""
    id: str = ""


class Watch(Service):
    """Looks for open entities that have lost their workflow, and treats each as a reconciliation does.

    Args:
        pool: the app's database.
        client: a client of Temporal without plugins.
        app: the app whose lifecycles are checked.
        settings: the scope.
        meter: counts the mended differences.
        every: seconds between two turns; None = `EVERY`.
    """

    def __init__(
        self,
        pool: Pool,
        client: Client,
        app: App,
        settings: Settings,
        meter: MetricMeter | None,
        every: float | None = None,
    ) -> None:
        super().__init__("watch", EVERY if every is None else every)
        self._pool = pool
        self._client = client
        self._app = app
        self._settings = settings
        self._meter = meter
        self._turn = min(_TURN, timedelta(seconds=self.every * 0.75))

    async def once(self) -> bool:
        """One turn, unless another worker has it."""
        # A copy of the database, or a restored one, changes nothing (invariant 11).
        await self._pool.fetchval("select perdure.check_database()")
        turn = await self._pool.fetchrow(query("watch_begin"), self._turn)
        if turn is None or not self._app.lifecycles:
            return False
        findings = Findings(self._pool, await self._pool.fetchval(query("watch_run")))
        now = turn["looked_at"]
        context = Context(self._pool, self._client, self._app, self._settings, findings, younger_than=now)
        try:
            await self._look_at_closed(context, turn["closed_since"] - LAG)
            place = await self._compare_open(context, _Place(turn["lifecycle"], turn["id"]))
        finally:
            self._count(context.findings)
        await self._pool.execute(query("watch_end"), now, place.lifecycle, place.id)
        return False

    async def _look_at_closed(self, context: Context, since: datetime) -> None:
        pages = self._client.list_workflows(self._ended_since(since), page_size=_CLOSED, rpc_timeout=_RPC)
        while True:
            await pages.fetch_next_page()
            found = [each for execution in pages.current_page or () if (each := self._entity(execution))]
            if found:
                lifecycles, ids = (list(each) for each in zip(*dict.fromkeys(found), strict=True))
                await self._look_at(context, _rows(await fetch(context, query("watched_closed"), lifecycles, ids)))
            if pages.next_page_token is None:
                return
            self.pulse.beat()
            await self._pool.execute(query("watch_keep"))

    def _ended_since(self, since: datetime) -> str:
        types = ", ".join(f"'{each}'" for each in sorted(self._app.lifecycles))
        ours = f" AND WorkflowId STARTS_WITH '{self._settings.scope}:'" if self._settings.scope else ""
        return (
            "ExecutionStatus IN ('Terminated', 'TimedOut', 'Failed', 'Canceled') "
            f"AND CloseTime > '{since.isoformat()}' AND WorkflowType IN ({types}){ours}"
        )

    def _entity(self, execution: WorkflowExecution) -> tuple[str, str] | None:
        """Lifecycle and id of an execution; None if it belongs to another database."""
        prefix = workflow_prefix(execution.workflow_type, self._settings.scope)
        if not execution.id.startswith(prefix):
            return None
        return execution.workflow_type, execution.id.removeprefix(prefix)

    async def _compare_open(self, context: Context, place: _Place) -> _Place:
        """Compare open entities from `place` on, for the allowed time and at most once around. Returns the new
        place."""
        end, first, around = time.monotonic() + self.every * SHARE, place, False
        lifecycles = list(self._app.lifecycles)
        while not around or (place.lifecycle, place.id) < (first.lifecycle, first.id):
            page = await fetch(context, query("watched_open"), lifecycles, place.lifecycle, place.id, PAGE, _YOUNG)
            rows = _rows(each for each in page if not each["young"])
            open_ones = await listed_as_open(context, rows)
            scope = self._settings.scope
            await self._look_at(context, [row for row in rows if row.entity.workflow_id(scope) not in open_ones])
            if len(page) == PAGE:
                place = _Place(page[-1]["lifecycle"], page[-1]["id"])
            elif around:
                return _Place()
            else:
                place, around = _Place(), True
                if first == place:
                    return place
            if time.monotonic() > end:
                return place
        return place

    async def _look_at(self, context: Context, rows: Iterable[Row]) -> None:
        """Check each row in Temporal, and treat those without an open workflow."""
        few = asyncio.Semaphore(AT_ONCE)

        async def look(row: Row) -> None:
            async with few, alone(context, row):
                self.pulse.beat()
                await is_open_after_all(context, row)

        await asyncio.gather(*map(look, rows))

    def _count(self, findings: Findings) -> None:
        if self._meter is not None:
            for kind, times in findings.mended_now.items():
                count(self._meter, names.MENDED, times, kind=kind)


def _rows(found: Iterable[asyncpg.Record]) -> list[Row]:
    rows = []
    for each in found:
        try:
            rows.append(Row.of(each))
        except InvalidEntity:  # SQL accepts the id; the start was rejected
            continue
    return rows
