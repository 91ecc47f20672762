"""Reads how everything stands from the database and from Temporal, and shows it as gauges.

Every worker with metrics does, and all read the same: a dashboard takes the maximum, not the sum. A label takes
its values from what the app declares; what it does not declare is `other`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import asyncpg
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.common import MetricMeter

from perdure.app import App
from perdure.contracts.states import States
from perdure.fleet.service import Service
from perdure.queries import query
from perdure.settings import Settings
from perdure.store.postgres import Pool
from perdure.telemetry import names
from perdure.telemetry.metrics import show

EVERY = 15.0
"""Seconds between two readings; more where a reading is slow, so that it takes a twentieth of the time at most."""
_LONGEST = 10.0
_KINDS = {
    "workflow": TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    "activity": TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
}

Numbers = dict[tuple[str, ...], float]


class Gauges(Service):
    """Shows how everything stands.

    Args:
        pool: the app's database.
        client: Temporal.
        app: whose lifecycles, states and effects are shown.
        settings: the task queue.
        meter: where they are shown.
        every: seconds between two readings.
    """

    def __init__(
        self, pool: Pool, client: Client, app: App, settings: Settings, meter: MetricMeter, every: float = EVERY
    ) -> None:
        super().__init__("gauges", every)
        self._pool = pool
        self._client = client
        self._meter = meter
        self._at_least = every
        self._states = [(name, state) for name, each in app.lifecycles.items() for state in _open_states(each.declared)]
        self._effects = [(name, effect.name) for name, each in app.lifecycles.items() for effect in each.effects]
        self._lifecycles = list(app.lifecycles)
        self._queues = _queues(app, settings)

    async def once(self) -> bool:
        """One reading."""
        began = time.monotonic()
        async with self._pool.acquire(timeout=5) as connection, connection.transaction(readonly=True):
            await connection.execute(f"set local statement_timeout = '{_LONGEST:g}s'")
            open_ones = await connection.fetch(query("gauges_open"), self._lifecycles)
            in_doubt = await connection.fetch(query("gauges_in_doubt"), self._lifecycles)
            parked = await connection.fetch(query("gauges_parked"), self._lifecycles)
            waiting = await connection.fetchrow(query("gauges_waiting"))
        self._show_open(open_ones)
        self._show_doubt(in_doubt, parked)
        assert waiting is not None
        self._show_waiting(waiting)
        show(self._meter, names.READ_AT, time.time())
        self.every = max(self._at_least, 20 * (time.monotonic() - began))
        for task_queue, kind in self._queues:
            await self._show_task_queue(task_queue, kind)
        return False

    def _show_open(self, rows: Iterable[asyncpg.Record]) -> None:
        counts, oldest = dict.fromkeys(self._states, 0.0), dict.fromkeys(self._states, 0.0)
        stuck, attention = (dict.fromkeys([(name,) for name in self._lifecycles], 0.0) for _ in range(2))
        for row in rows:
            name = row["lifecycle"]
            where = name, row["state"] if (name, row["state"]) in counts else names.OTHER
            counts[where] += row["open"]
            oldest[where] = max(oldest[where], row["oldest"])
            stuck[name,] += row["stuck"]
            attention[name,] += row["attention"]
        self._show_all({names.OPEN: counts, names.OLDEST_SECONDS: oldest, names.STUCK: stuck})
        self._show_all({names.ATTENTION: attention})

    def _show_doubt(self, in_doubt: Iterable[asyncpg.Record], parked: Iterable[asyncpg.Record]) -> None:
        counts, oldest = dict.fromkeys(self._effects, 0.0), dict.fromkeys(self._effects, 0.0)
        for row in in_doubt:
            where = row["lifecycle"], row["effect"]
            if where not in counts:  # declared by an earlier version of the app
                where = row["lifecycle"], names.OTHER
            counts[where] = counts.get(where, 0.0) + row["in_doubt"]
            oldest[where] = max(oldest.get(where, 0.0), row["oldest"])
        waits = dict.fromkeys([(name,) for name in self._lifecycles], 0.0)
        waits |= {(row["lifecycle"],): float(row["parked"]) for row in parked}
        self._show_all({names.IN_DOUBT: counts, names.IN_DOUBT_SECONDS: oldest, names.PARKED: waits})

    def _show_waiting(self, row: asyncpg.Record) -> None:
        show(self._meter, names.RELAY_WAITING, row["waiting"])
        show(self._meter, names.RELAY_LAG_SECONDS, row["lag"])
        show(self._meter, names.BEHIND, row["behind"])

    async def _show_task_queue(self, task_queue: str, kind: str) -> None:
        seen = await self._client.workflow_service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=self._client.namespace,
                task_queue=TaskQueue(name=task_queue),
                task_queue_type=_KINDS[kind],
                report_stats=True,
            ),
            timeout=timedelta(seconds=5),
        )
        labels = {"task_queue": task_queue, "kind": kind}
        show(self._meter, names.POLLERS, len(seen.pollers), **labels)
        show(self._meter, names.BACKLOG, seen.stats.approximate_backlog_count, **labels)
        age = seen.stats.approximate_backlog_age.ToTimedelta().total_seconds()
        show(self._meter, names.BACKLOG_SECONDS, max(age, 0.0), **labels)

    def _show_all(self, gauges: Mapping[names.Metric, Numbers | Mapping[Any, float]]) -> None:
        for metric, values in gauges.items():
            for labels, value in values.items():
                show(self._meter, metric, value, **dict(zip(metric.labels, labels, strict=True)))


def _open_states(states: States[Any]) -> list[str]:
    return [each for each in states.names if each not in states or not states[each].final] + [names.OTHER]


def _queues(app: App, settings: Settings) -> list[tuple[str, str]]:
    """Every task queue that the app uses, and what is asked for there."""
    special = {each.task_queue for each, _ in app.bodies.values() if each.task_queue is not None}
    main = settings.task_queue
    return [(main, kind) for kind in _KINDS] + [(each, "activity") for each in sorted(special - {main})]
