"""Each alert is provoked for real, seen to fire by a real Prometheus that scrapes a real worker, and seen to end where
its reason ends. The first command of its page in the runbook then shows its reason. Each panel of the dashboard has
series there."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from infra.needs import is_needed
from infra.prometheus import RULES, Prometheus, hurried, why_no_prometheus
from infra.telemetry.make_dashboard import dashboard
from perdure.contracts import EffectStatus
from perdure.servers.ports import free_port
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.apps.alarmed import app
from tests.apps.contracts import Booking
from tests.command import perdure
from tests.infra.test_dashboards import expressions
from tests.integration.reconcile.reconciling import begun, terminated
from tests.world import WorkerProcess, World

NAMES = set(re.findall(r"- alert: (\w+)", RULES.read_text()))
PAGES = RULES.parents[2] / "docs" / "runbook"
SHOWN = {
    "PerdureAttention": "faulty/faulty .*its code fails",
    "PerdureBacklog": "nowhere:.* activity +1 ",
    "PerdureBlind": "has held a lock on what this reads",
    "PerdureFindings": "staying/odd: it is in 'elsewhere'",
    "PerdureInDoubtTooLong": "do-escalate .*a person",
    "PerdureNoPoller": "nowhere:.* activity .* 0$",
    "PerdureNoWorker": "^task queues$",
    "PerdureReconciliationLate": "requested by .*began",
    "PerdureRejected": "lookup/a .*the input does not fit",
    "PerdureRelayLags": "^delivery\nwaiting .*\n1 ",
    "PerdureStuck": "staying/stuck ",
    "PerdureTemporalAway": "no Temporal server answers at",
    "PerdureVanished": "staying/terminated: its workflow was terminated: an accident",
    "PerdureWaitsForAPerson": "escalate/escalate .*a person",
    "PerdureWorkflowTasksFail": "faulty/faulty .*its code fails",
}
"""Part of what the first command of the page of an alert shows."""
NOWHERE = {"PerdureNoPoller"}
"""Fires from the start: the app has an effect for a task queue that no worker polls."""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[TemporalServer]:
    """A server that can be stopped."""
    with TemporalServer(db_file=tmp_path / "temporal.db") as server:
        yield server


@pytest.fixture
async def apart(postgres: PostgresServer, own: TemporalServer, database: str, tmp_path: Path) -> AsyncIterator[World]:
    """A world on that server."""
    async with World(postgres, own, database, tmp_path).made(app) as made:
        made.config = made.config.model_copy(update={"reconciliation_every": 24.0, "reconciliation_grace": 0.0})
        yield made


class Watched:
    """A world with a worker that Prometheus scrapes."""

    def __init__(self, world: World, worker: WorkerProcess, prometheus: Prometheus) -> None:
        self.world = world
        self.worker = worker
        self._prometheus = prometheus
        self.fired: set[str] = set()

    async def fires(self, alert: str, **labels: str) -> None:
        """Wait until an alert fires, with these labels."""

        async def fires() -> bool:
            return any(
                {"alertname": alert, **labels}.items() <= each.items() for each in await self._prometheus.firing()
            )

        await self.world.until(fires, f"{alert} {labels or ''} fires", every=0.2)
        if alert not in self.fired:
            await self._first_command_shows(alert)
        self.fired.add(alert)

    async def _first_command_shows(self, alert: str) -> None:
        page = (PAGES / f"alert-{alert}.md").read_text()
        words = (
            page.partition("\n$ perdure ")[2].splitlines()[0].replace("package.module", "tests.apps.alarmed").split()
        )

        async def shows() -> bool:
            end = await perdure(self.world, *words)
            return re.search(SHOWN[alert], f"{end.output}\n{end.exception}", re.MULTILINE) is not None

        await self.world.until(shows, f"perdure {' '.join(words)} shows the reason of {alert}", every=0.2)

    async def ends(self, alert: str, **labels: str) -> None:
        """Wait until it fires no more."""

        async def ended() -> bool:
            found = await self._prometheus.firing()
            return not any({"alertname": alert, **labels}.items() <= each.items() for each in found)

        await self.world.until(ended, f"{alert} {labels or ''} ends", every=0.2)

    async def shows(self, expression: str) -> None:
        """Wait until an expression has series."""
        await self.world.until(partial(self._prometheus.series, expression), f"series of {expression}", every=0.2)


@asynccontextmanager
async def watched(world: World, folder: Path) -> AsyncIterator[Watched]:
    where = f"127.0.0.1:{free_port()}"
    worker = await world.spawn(
        "tests.apps.alarmed_often:app", PERDURE_METRICS=f"prometheus:{where}", PERDURE_RECONCILIATION_GRACE="0"
    )
    with Prometheus(folder / "prometheus", where) as prometheus:
        yield Watched(world, worker, prometheus)


async def test_each_alert_fires_at_its_reason_and_each_panel_shows_something(
    apart: World, own: TemporalServer, tmp_path: Path
) -> None:
    if missing := why_no_prometheus():
        pytest.fail(missing) if is_needed("prometheus") else pytest.skip(missing)
    assert "for: 1m" not in hurried(RULES.read_text())
    async with watched(apart, tmp_path) as here:
        await here.fires("PerdureNoPoller", task_queue=f"nowhere:{apart.scope}", scope=apart.scope)
        await of_entities(apart, here)
        await of_records(apart, here)
        async with readings_held_up(apart):
            await here.fires("PerdureBlind", scope=apart.scope)
        await here.ends("PerdureBlind")
        await with_temporal_away(apart, own, here)
        await apart.db.execute("select perdure.signal('staying', 'terminated', 'go')")  # it has no workflow: postponed
        for expression in expressions(dashboard()["panels"]):
            await here.shows(expression.replace("5m", "1m"))
        await here.worker.kill()
        await here.fires("PerdureNoWorker", scope=apart.scope)
        assert here.fired == NAMES


async def of_entities(world: World, here: Watched) -> None:
    """What happens to single entities: doubts, refusals, bad code, ends from outside."""
    world.counterparty.replies_to["escalate"] = [{"close": True}]
    world.counterparty.replies_to["done"] = [{"accept": True, "close": True}]
    world.counterparty.replies_to["late"] = [{"not_done": "busy"}] * 30
    await begun(world, "staying/terminated", "stubborn/again", "staying/stuck", "staying/odd")
    await world.client.start("escalate", "escalate", Booking())
    await world.client.start("lookup", "late", Booking(seconds=1))
    await world.client.start("faulty", "faulty", Booking())
    await world.client.start("nowhere", "nowhere", Booking())
    await world.client.start("lookup", "done", Booking())
    await here.fires("PerdureWaitsForAPerson", lifecycle="escalate")
    await here.fires("PerdureAttention", lifecycle="faulty")
    await here.fires("PerdureWorkflowTasksFail", workflow_type="faulty")
    await here.fires("PerdureBacklog", task_queue=f"nowhere:{world.scope}")
    await world.db.execute("select perdure.start('lookup', 'a', '{\"seconds\": \"many\"}')")
    await here.fires("PerdureRejected", lifecycle="lookup", kind="start")
    await terminated(world, "staying", "terminated", "an accident")
    await terminated(world, "stubborn", "again", "an accident")
    await here.fires("PerdureVanished", lifecycle="staying", kind="ended")
    await here.fires("PerdureVanished", lifecycle="stubborn", kind="ended")
    await world.db.execute("select perdure.drop_rejected(seq, 'ann', 'a test') from perdure.rejected")
    await here.ends("PerdureRejected")


async def of_records(world: World, here: Watched) -> None:
    """What is old, which a test can't wait for."""
    doubt = "update perdure.effect set deadline = now() - interval '20 min' where effect = 'do-escalate'"
    await world.db.execute(doubt)
    await here.fires("PerdureInDoubtTooLong", effect="do-escalate")
    await world.client.resolve("escalate", "escalate", EffectStatus.ABANDONED, by="ann", note="a test")
    await here.ends("PerdureInDoubtTooLong")
    await here.ends("PerdureWaitsForAPerson")
    await world.db.execute("update perdure.entity set stuck_at = now() - interval '1 hour' where id = 'stuck'")
    await here.fires("PerdureStuck", lifecycle="staying")
    await world.db.execute("update perdure.entity set state = 'elsewhere' where id = 'odd'")
    assert (await perdure(world, "reconcile", "--now", "staying", "odd", "--grace", "0s")).exit_code == 1
    await here.fires("PerdureFindings", kind="unreadable")
    over = "select exists (select from perdure.reconciliation where ended_at is not null and summary->>'only' is null)"
    await world.until(lambda: world.db.fetchval(over), "the worker's first one, after which it looks in five minutes")
    age = "update perdure.reconciliation set began_at = began_at - interval '3 days'"
    await world.db.execute("update perdure.migration set applied_at = applied_at - interval '3 days'")
    await world.db.execute(age)
    await here.fires("PerdureReconciliationLate")


@asynccontextmanager
async def readings_held_up(world: World) -> AsyncIterator[None]:
    """No gauge can be read from the database."""
    keeper = await asyncpg.connect(world.dsn)
    try:
        async with keeper.transaction():
            await keeper.execute("lock table perdure.finding in access exclusive mode")
            yield
    finally:
        await keeper.close()


async def with_temporal_away(world: World, own: TemporalServer, here: Watched) -> None:
    """First with an empty outbox, then with a start that waits."""
    assert await world.db.fetchval("select count(*) from perdure.outbox") == 0
    own.stop()
    await here.fires("PerdureTemporalAway", scope=world.scope)
    await world.client.start("lookup", "waits", Booking())
    await here.fires("PerdureRelayLags", scope=world.scope)
    own.start()
    await here.ends("PerdureTemporalAway")
    await here.ends("PerdureRelayLags")
    assert await world.ended("lookup", "waits") == "done"
