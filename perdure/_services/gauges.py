"""Reads the present state of entities and services from the database, and shows it as gauges.

Every worker with metrics reads the same values, so a dashboard takes the maximum, not the sum. The values of labels are
the app's declarations; `other` stands for an undeclared value.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from typing import Any

import asyncpg
from temporalio.common import MetricMeter

from perdure._services.service import Service
from perdure._store.bounds import bounds
from perdure._store.finding_kinds import ENDED, KINDS, VANISHED
from perdure._store.parked import ABOUT_DOUBT
from perdure._store.postgres import Pool
from perdure._store.sql import queries, shared
from perdure.app import App
from perdure.contracts.states import STARTING, States
from perdure.settings import Settings
from perdure.telemetry import names
from perdure.telemetry.metrics import show

query = queries(__name__)

EVERY = 15.0
"""Seconds between two readings; more if a reading is slow, so that it takes at most a twentieth of the time."""
RAREST = 120.0
"""Seconds between two readings at most, however slow they are: after 300 s `PerdureBlind` fires."""
FORGOTTEN = 300.0
"""Seconds after which a value that was not read again is shown as unknown. Other workers may show a newer one, and the
maximum would keep the old one. If it were shorter, alerts would end while the database restarts."""
_LONGEST = 10.0
_KINDS = ("start", "message", "wake")
"""The kinds of rows of the outbox."""
_UNKNOWN = math.nan

Numbers = dict[tuple[str, ...], float]


class Gauges(Service):
    """Shows the present state as gauges.

    Args:
        pool: the app's database.
        app: the app whose lifecycles, states and effects are shown.
        settings: the interval of reconciliations.
        meter: the meter for the gauges.
        every: seconds between two readings; None = `EVERY`.
    """

    def __init__(
        self, pool: Pool, app: App, settings: Settings, meter: MetricMeter, every: float | None = None
    ) -> None:
        super().__init__("gauges", EVERY if every is None else every)
        self._pool = pool
        self._meter = meter
        self._at_least = self.every
        self._read_at = time.monotonic()
        self._shown: set[tuple[names.Metric, tuple[tuple[str, str], ...]]] = set()
        self._states = [(name, state) for name, each in app.lifecycles.items() for state in _open_states(each.declared)]
        self._effects = [
            (name, effect)
            for name, each in app.lifecycles.items()
            for effect in [*(effect.name for effect in each.effects), names.OTHER]
        ]
        self._lifecycles = list(app.lifecycles)
        self._rejected = [(name, kind) for name in [*self._lifecycles, names.OTHER] for kind in _KINDS]
        self._interval = settings.reconciliation_every

    async def once(self) -> bool:
        """One reading."""
        began = time.monotonic()
        if began - self._read_at > FORGOTTEN:
            self._forget()
        async with self._pool.acquire(timeout=5) as connection, connection.transaction(readonly=True):
            await connection.execute(bounds(statement=f"{_LONGEST:g}s"))
            open_ones = await connection.fetch(query("gauges_open"), self._lifecycles)
            in_doubt = await connection.fetch(query("gauges_in_doubt"), self._lifecycles)
            parked = await connection.fetch(query("gauges_parked"), self._lifecycles, ABOUT_DOUBT)
            waiting = await connection.fetchrow(shared("gauges_waiting"))
            rejected = await connection.fetch(query("gauges_rejected"))
            found = await connection.fetch(query("gauges_findings"))
            vanished = await connection.fetch(query("gauges_vanished"))
            age = await connection.fetchval(query("gauges_reconciliation"), self._interval) if self._interval else 0.0
        self._show_open(open_ones)
        self._show_doubt(in_doubt, parked)
        assert waiting is not None
        self._show_waiting(waiting)
        self._show_rejected(rejected)
        self._show_reconciliation(found, age)
        self._show_vanished(vanished)
        show(self._meter, names.READ_AT, time.time())
        self._read_at = time.monotonic()
        self.every = max(self._at_least, min(RAREST, 20 * (self._read_at - began)))
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
            counts[where] += row["in_doubt"]
            oldest[where] = max(oldest[where], row["oldest"])
        waits = dict.fromkeys([(name,) for name in self._lifecycles], 0.0)
        waits |= {(row["lifecycle"],): float(row["parked"]) for row in parked}
        self._show_all({names.IN_DOUBT: counts, names.IN_DOUBT_SECONDS: oldest, names.PARKED: waits})

    def _show_waiting(self, row: asyncpg.Record) -> None:
        self._show(names.RELAY_WAITING, row["waiting"])
        self._show(names.RELAY_LAG_SECONDS, row["lag"])
        self._show(names.BEHIND, row["behind"])
        self._show(names.RELAY_UNKNOWN, row["unknown"])

    def _show_rejected(self, rows: Iterable[asyncpg.Record]) -> None:
        counts = dict.fromkeys(self._rejected, 0.0)
        for row in rows:
            lifecycle = row["lifecycle"] if row["lifecycle"] in self._lifecycles else names.OTHER
            counts[lifecycle, row["kind"]] += row["rejected"]
        self._show_all({names.REJECTED: counts})

    def _show_reconciliation(self, rows: Iterable[asyncpg.Record], age: float) -> None:
        counts = dict.fromkeys([(kind.name,) for kind in KINDS], 0.0)
        counts |= {(row["kind"],): float(row["found"]) for row in rows if (row["kind"],) in counts}
        self._show_all({names.FINDINGS: counts})
        self._show(names.RECONCILIATION_AGE_SECONDS, age)

    def _show_vanished(self, rows: Iterable[asyncpg.Record]) -> None:
        counts = dict.fromkeys([(name, kind.name) for name in self._lifecycles for kind in (ENDED, VANISHED)], 0.0)
        counts |= {
            (row["lifecycle"], row["kind"]): float(row["found"])
            for row in rows
            if (row["lifecycle"], row["kind"]) in counts
        }
        self._show_all({names.VANISHED: counts})

    def _show_all(self, gauges: Mapping[names.Metric, Numbers | Mapping[Any, float]]) -> None:
        for metric, values in gauges.items():
            for labels, value in values.items():
                self._show(metric, value, **dict(zip(metric.labels, labels, strict=True)))

    def _show(self, metric: names.Metric, value: float, **labels: str) -> None:
        self._shown.add((metric, tuple(labels.items())))
        show(self._meter, metric, value, **labels)

    def _forget(self) -> None:
        for metric, labels in self._shown:
            show(self._meter, metric, _UNKNOWN, **dict(labels))


def _open_states(states: States[Any]) -> list[str]:
    open_ones = [each for each in states.names if each not in states or not states[each].final]
    return [STARTING, *open_ones, names.OTHER]
