"""The alert rules on what a running worker exports: its scrapes go into `promtool test rules`."""

from __future__ import annotations

import json
import math
import re
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from temporalio.service import RPCError

from infra.promtool import obtain_promtool
from perdure._services import queue_gauges
from perdure._services.gauges import RAREST
from perdure._store.postgres import Database
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from perdure.telemetry import names
from tests.apps.bodies import app
from tests.integration.telemetry.test_metrics import Metered, metered, value_in
from tests.world import World

RULES = Path(__file__).parents[3] / "infra" / "telemetry" / "alerts.yaml"
Scrape = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def check_firing(folder: Path, scrapes: Sequence[Scrape], expected: Sequence[Mapping[str, str]]) -> None:
    """Make sure that exactly these alerts fire when Prometheus has read each scrape ten times, a minute apart."""
    series: dict[str, list[str]] = {}
    for number, scrape in enumerate(scrapes):
        for (name, labels), value in scrape.items():
            if not name.startswith("perdure_"):
                continue
            given = ",".join(f'{label}="{text}"' for label, text in sorted(labels))
            values = series.setdefault(f"{name}{{{given}}}", ["_"] * 10 * number)
            values += [str(value)] * 10
    [scope] = {dict(labels)["scope"] for scrape in scrapes for _, labels in scrape}
    alerts = [{"alertname": each["alertname"], "alertstate": "firing", "scope": scope, **each} for each in expected]
    samples = [{"labels": "ALERTS" + _written(each), "value": 1} for each in alerts]
    query = {"expr": 'ALERTS{alertstate="firing"}', "eval_time": f"{10 * len(scrapes) - 1}m", "exp_samples": samples}
    given_series = [{"series": each, "values": " ".join(values)} for each, values in series.items()]
    test = {"interval": "1m", "input_series": given_series, "promql_expr_test": [query]}
    file = folder / "alerts_test.yaml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}))
    outcome = subprocess.run([obtain_promtool(), "test", "rules", file], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def _written(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{label}="{text}"' for label, text in labels.items()) + "}"


async def scraped(here: Metered) -> Scrape:
    """What Prometheus reads after a new reading of the gauges."""
    await here.gauges.once()
    await here.queues.once()
    return await here.samples()


async def all_quiet(world: World, here: Metered) -> Scrape:
    """A scrape once Temporal lists the worker's pollers, which takes it a moment."""

    async def listed() -> Scrape | None:
        scrape = await scraped(here)
        pollers = [value for (name, _), value in scrape.items() if name == names.POLLERS.name]
        return scrape if all(pollers) else None

    found: Scrape = await world.until(listed, "pollers at each task queue")
    return found


async def test_the_first_rejection_fires_an_alert_until_somebody_dealt_with_it(world: World, tmp_path: Path) -> None:
    async with metered(world) as here:
        quiet = await all_quiet(world, here)
        check_firing(tmp_path, [quiet], [])
        await world.db.execute("select perdure.start('lookup', 'a', '{\"seconds\": \"many\"}')")
        seq = await world.until(lambda: world.db.fetchval("select seq from perdure.rejected"), "rejected")
        rejected = await scraped(here)
        assert await here.value(names.REJECTED, lifecycle="lookup", kind="start") == 1
        alerts = [
            {"alertname": "PerdureRejected", "severity": "warning", "lifecycle": "lookup", "kind": "start"},
            {"alertname": "PerdureAttention", "severity": "warning", "lifecycle": "lookup"},
        ]
        check_firing(tmp_path, [quiet, rejected], alerts)
        check_firing(tmp_path, [quiet, rejected, rejected, rejected], alerts)
        await world.db.execute("select perdure.drop_rejected($1, 'ann', 'a test')", seq)
        dropped = await scraped(here)
        check_firing(tmp_path, [quiet, rejected, dropped, dropped], [])


async def test_a_row_with_an_unknown_name_is_counted_when_it_is_rejected(world: World) -> None:
    async with metered(world, relay=False) as here:
        await world.db.execute("select perdure.start('unheard-of', 'a', '{}')")
        await world.db.execute(
            "with gone as (delete from perdure.outbox returning *) insert into perdure.rejected "
            "(seq, lifecycle, id, generation, kind, body, reason) "
            "select seq, lifecycle, id, generation, kind, body, 'no worker has it' from gone"
        )
        await here.gauges.once()
        assert await here.value(names.REJECTED, lifecycle=names.OTHER, kind="start") == 1


@pytest.fixture
def own(tmp_path: Path) -> Iterator[TemporalServer]:
    """A server that can be stopped."""
    with TemporalServer(db_file=tmp_path / "temporal.db") as server:
        yield server


@pytest.fixture
async def apart(postgres: PostgresServer, own: TemporalServer, database: str, tmp_path: Path) -> AsyncIterator[World]:
    """A world on that server."""
    async with World(postgres, own, database, tmp_path).made(app) as made:
        yield made


async def test_while_temporal_is_away_its_readings_are_no_numbers_and_an_alert_fires(
    apart: World, own: TemporalServer, tmp_path: Path
) -> None:
    async with metered(apart) as here:
        main: dict[str, Any] = {"task_queue": apart.config.queue, "kind": "workflow"}
        quiet = await all_quiet(apart, here)  # the worker reads as well, and a later reading may list no pollers
        answered = value_in(quiet, names.TEMPORAL_ANSWERED_AT)
        assert answered is not None
        assert abs(answered - time.time()) < 60
        assert value_in(quiet, names.POLLERS, **main) == 1

        own.stop()
        await here.gauges.once()
        with pytest.raises(RPCError):
            await here.queues.once()
        since = await here.value(names.TEMPORAL_ANSWERED_AT)
        assert since is not None
        read = await here.value(names.READ_AT)
        assert read is not None
        assert read > since, "the database was read"
        for metric in (names.POLLERS, names.BACKLOG, names.BACKLOG_SECONDS):
            value = await here.value(metric, **main)
            assert value is not None, metric
            assert math.isnan(value), metric
        # In the clock of the rules' test, which begins with 0.
        away = {
            key: {names.READ_AT.name: 600.0, names.TEMPORAL_ANSWERED_AT.name: 0.0}.get(key[0], value)
            for key, value in (await here.samples()).items()
        }
        check_firing(tmp_path, [away], [{"alertname": "PerdureTemporalAway", "severity": "critical"}])

        own.start()

        async def read_again() -> bool:
            try:
                await here.queues.once()
            except RPCError:
                return False
            return await here.value(names.POLLERS, **main) == 1

        await apart.until(read_again, "pollers are counted again")
        assert (await here.value(names.TEMPORAL_ANSWERED_AT) or 0) > since


async def test_a_slow_database_fires_no_alert_about_temporal_or_the_database(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    jitter, temporals_time_out, statements = 1.2, 5, 9
    assert (queue_gauges.EVERY * jitter + temporals_time_out) < threshold("PerdureTemporalAway")
    assert RAREST * jitter + statements * 10 < threshold("PerdureBlind")
    monkeypatch.setattr("perdure._services.gauges.RAREST", 20.0)
    async with metered(world) as here:
        before = await here.value(names.READ_AT) or 0.0
        await world.db.execute(
            "insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason) "
            "values (1, 'lookup', 'a', 0, 'start', '{}', 'unfit'); alter table perdure.rejected rename to few; "
            "create view perdure.rejected as select few.* from perdure.few, pg_sleep(1.2)"
        )
        try:
            await here.gauges.once()
        finally:
            await world.db.execute("drop view perdure.rejected; alter table perdure.few rename to rejected")
        assert (await here.value(names.READ_AT) or 0.0) > before
        assert here.gauges.every == 20, "twenty times its duration would be more"


def threshold(alert: str) -> float:
    """Seconds that the newest of a time stamp may be old."""
    found = re.search(rf"alert: {alert}\n(?:.*\n)*?\s+expr: .* > (\d+)\n", RULES.read_text())
    assert found is not None
    return float(found[1])


async def test_a_worker_that_is_cut_off_from_the_database_keeps_no_alert_alive(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It saw a rejected row. Another worker sees that somebody drops the row."""
    async with metered(world) as here:
        await all_quiet(world, here)
        await world.db.execute("select perdure.start('lookup', 'a', '{\"seconds\": \"many\"}')")
        seq = await world.until(lambda: world.db.fetchval("select seq from perdure.rejected"), "rejected")
        await scraped(here)
        reads = here.gauges._pool
        database = Database(world.dsn)
        here.gauges._pool = await database.open()
        await database.close()
        await world.db.execute("select perdure.drop_rejected($1, 'ann', 'a test')", seq)
        with pytest.raises(asyncpg.InterfaceError, match="pool is clos"):
            await here.gauges.once()
        assert await here.value(names.REJECTED, lifecycle="lookup", kind="start") == 1, "a restart ends no alert"
        monkeypatch.setattr("perdure._services.gauges.FORGOTTEN", 0.0)
        with pytest.raises(asyncpg.InterfaceError, match="pool is clos"):
            await here.gauges.once()
        unknown = await here.value(names.REJECTED, lifecycle="lookup", kind="start")
        assert unknown is not None
        assert math.isnan(unknown)
        cut_off = _of("a", {**await here.samples(), _only(await here.samples(), names.READ_AT): -10_000.0})
        here.gauges._pool = reads
        check_firing(tmp_path, [{**cut_off, **_of("b", await scraped(here))}] * 2, [])


def _of(instance: str, scrape: Scrape) -> Scrape:
    return {(name, labels | {("instance", instance)}): value for (name, labels), value in scrape.items()}


def _only(scrape: Scrape, metric: names.Metric) -> tuple[str, frozenset[tuple[str, str]]]:
    [found] = [key for key in scrape if key[0] == metric.name]
    return found
