"""What the metrics count, and what the gauges show: real lifecycles, read at the endpoint that Prometheus reads."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from enum import StrEnum
from typing import Any

import pytest
import temporalio.client
from temporalio import workflow

from perdure import App, Lifecycle, PerdurePlugin, state
from perdure._operations.doubts import DoubtSelection, read_doubts
from perdure._operations.inbox import read_inbox
from perdure._operations.overview import read_overview
from perdure._operations.problems import problems
from perdure._operations.selection import Selection, count
from perdure._services.gauges import Gauges
from perdure._services.queue_gauges import QueueGauges
from perdure._worker.worker import new_worker
from perdure.errors import InvalidSetting
from perdure.servers.ports import free_port
from perdure.settings import settings
from perdure.telemetry import names
from perdure.telemetry.exporting import exporting
from perdure.telemetry.metrics import meter_of
from tests.acceptance.bookings import commit_bookings, parked, time_enough
from tests.apps.bodies import app
from tests.apps.bookings import Way
from tests.apps.contracts import Booking
from tests.collector import Collector, collecting
from tests.deadline import in_time, until
from tests.integration.telemetry.test_traces import exports
from tests.running import running
from tests.world import World

ATTEMPTS_TIMED = replace(names.ATTEMPT_SECONDS, name="perdure_attempt_seconds_count")
ACCEPTED_UNSAID = {"accept": True, "close": True}
"""The other side does it, and nobody hears so: in doubt, until a look-up finds it."""
SECRET = "Zq7-the-other-side-of-the-moon"


class Where(StrEnum):
    """Where it is."""

    HERE = "here"
    THERE = state("there", final=True)


@workflow.defn(name="faulty", sandboxed=False)
class Faulty(Lifecycle[Booking, Where]):
    """Its code is wrong."""

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """Fail."""
        raise LookupError(SECRET)


_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Metered:
    """A worker in this process whose metrics can be read."""

    def __init__(self, port: int, client: temporalio.client.Client, gauges: Gauges, queues: QueueGauges) -> None:
        self.client = client
        self.gauges = gauges
        self.queues = queues
        self._url = f"http://127.0.0.1:{port}/metrics"

    async def samples(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """Name and labels of all that is exported now, with the value."""
        found = {}
        for line in (await self.text()).splitlines():
            if sample := _SAMPLE.match(line):
                found[sample[1], frozenset(_LABEL.findall(sample[2] or ""))] = float(sample[3])
        return found

    async def text(self) -> str:
        """What Prometheus would read."""
        return await asyncio.to_thread(lambda: urllib.request.urlopen(self._url).read().decode())

    async def value(self, metric: names.Metric, **labels: str) -> float | None:
        """The value of one series; what the SDK adds to the labels does not matter."""
        return value_in(await self.samples(), metric, **labels)


def value_in(
    samples: Mapping[tuple[str, frozenset[tuple[str, str]]], float], metric: names.Metric, **labels: str
) -> float | None:
    """The value of one series in a scrape; what the SDK adds to the labels does not matter."""
    for (name, given), value in samples.items():
        if name == metric.name and set(labels.items()) <= given:
            return value
    return None


@asynccontextmanager
async def metered(world: World, app: App = app, **more: Any) -> AsyncIterator[Metered]:
    """A worker of `app` with metrics."""
    port = free_port()
    config = world.config.model_copy(update={"metrics": f"prometheus:127.0.0.1:{port}", **more})
    plugin = PerdurePlugin(app, config)
    with exporting(config) as runtime:
        client = await temporalio.client.Client.connect(world.temporal.address, plugins=[plugin], runtime=runtime)
        async with running(new_worker(client, config)):
            await in_time(plugin.ready.wait())
            meter = meter_of(client)
            assert meter is not None
            gauges = Gauges(world.client._pool, app, config, meter)
            made = Metered(port, client, gauges, QueueGauges(client, app, config, meter))
            await until(lambda: made.value(names.READ_AT), "the worker has shown its own reading, of before")
            yield made


@pytest.fixture
async def here(world: World) -> AsyncIterator[Metered]:
    async with metered(world) as made:
        yield made


async def test_each_state_and_attempt_is_counted_once_however_often_the_history_is_replayed(world: World) -> None:
    world.counterparty.replies += [{"not_done": "busy"}, ACCEPTED_UNSAID]
    async with metered(world, max_cached_workflows=0) as here:
        await world.client.start("lookup", "a", Booking())
        assert await world.ended("lookup", "a") == "done"
        await world.handle("lookup", "a").result()
        for way in (Way.PENDING, Way.DOING, Way.DONE):
            assert await here.value(names.STATES_ENTERED, lifecycle="lookup", state=way) == 1
        for outcome in ("not_done", "in_doubt"):
            ended = {"lifecycle": "lookup", "effect": "do-lookup", "outcome": outcome}
            assert await here.value(names.ATTEMPTS, **ended) == 1
            assert await here.value(ATTEMPTS_TIMED, **ended) == 1
        assert await here.value(names.LOOK_UPS, lifecycle="lookup", lookup="find-booking", answer="hit") == 1
        assert await here.value(names.RELAY_DELIVERED, kind="start") == 1


async def test_the_gauges_show_what_waits_for_a_person(world: World, here: Metered) -> None:
    world.counterparty.replies_to["escalate"] = [{"close": True}]
    world.counterparty.replies_to["repeat"] = [{"refused": "no"}]
    await commit_bookings(world, ["escalate", "repeat"])
    await parked(world, "escalate")
    await world.is_in("repeat", "repeat", "failed")
    await world.db.execute("update perdure.entity set stuck_at = now() - interval '1 s' where lifecycle = 'escalate'")
    await here.gauges.once()
    assert await here.value(names.PARKED, lifecycle="escalate") == 1
    assert await here.value(names.PARKED, lifecycle="repeat") == 0
    assert await here.value(names.ATTENTION, lifecycle="repeat") == 1
    assert await here.value(names.STUCK, lifecycle="escalate") == 1
    assert await here.value(names.STUCK, lifecycle="repeat") == 0
    assert await here.value(names.IN_DOUBT, lifecycle="escalate", effect="do-escalate") == 1
    assert 0 < (await here.value(names.IN_DOUBT_SECONDS, lifecycle="escalate", effect="do-escalate") or 0) < 3600
    assert await here.value(names.OPEN, lifecycle="repeat", state="failed") == 1
    assert 0 < (await here.value(names.OLDEST_SECONDS, lifecycle="repeat", state="failed") or 0) < 3600

    await world.client.cancel("repeat", "repeat", by="ann")
    assert await world.ended("repeat", "repeat") == "cancelled"
    await here.gauges.once()
    assert await here.value(names.OPEN, lifecycle="repeat", state="failed") == 0
    assert await here.value(names.ATTENTION, lifecycle="repeat") == 0


COPIED = """
    select perdure.start('repeat', 'a', '{}'), perdure.start('escalate', 'b', '{}');
    insert into perdure.effect
        (lifecycle, id, generation, key, effect, status, first_at, attempt_at, deadline, digest, token)
        values ('escalate', 'b', 0, 'k', 'do-escalate', 'in_doubt', now(), now(), now() - interval '1 hour', '', 'x');
    with gone as (delete from perdure.outbox returning *)
        insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason)
        select seq, lifecycle, id, generation, kind, body, 'belongs to the original' from gone;
    update perdure.entity set stuck_at = now() - interval '1 hour', attention = 'belongs to the original',
        left_to = 'belongs to the original';
"""
"""What `perdure database claim --as copied` makes of it, in its own words."""


async def test_what_a_copy_leaves_to_its_original_waits_for_nobody(world: World) -> None:
    async with metered(world, relay=False) as here:
        await world.db.execute(COPIED)
        await here.gauges.once()
        for lifecycle in ("repeat", "escalate"):
            assert await here.value(names.OPEN, lifecycle=lifecycle, state="starting") == 1
            for metric in (names.ATTENTION, names.PARKED, names.STUCK, names.REJECTED):
                assert await here.value(metric, lifecycle=lifecycle) == 0, metric
        for metric in (names.IN_DOUBT, names.IN_DOUBT_SECONDS):
            assert await here.value(metric, lifecycle="escalate", effect="do-escalate") == 0
        assert await read_doubts(world.db, DoubtSelection()) == []
        assert await read_inbox(world.db) == []
        assert problems(await read_overview(world.db), []) == []
        selections = (Selection(attention=True), Selection(stuck=True))
        assert [await count(world.db, each) for each in selections] == [0, 0]


async def test_an_expired_effect_is_counted_by_whether_it_may_have_happened(world: World, here: Metered) -> None:
    world.counterparty.replies_to = {"a": [ACCEPTED_UNSAID], "b": [{"not_done": "busy"}] * 300}
    enough = await time_enough(world, "escalate")
    for entity_id in ("a", "b"):
        await world.client.start("escalate", entity_id, Booking(seconds=enough))
    for entity_id, outcome in (("a", "in_doubt"), ("b", "not_done")):
        assert await world.ended("escalate", entity_id) == "expired"
        about = {"lifecycle": "escalate", "effect": "do-escalate", "outcome": outcome}
        assert await here.value(names.EXPIRED, **about) == 1


async def test_the_gauges_show_what_the_relay_did_not_deliver_yet(world: World) -> None:
    async with metered(world, relay=False) as here:
        await commit_bookings(world, ["repeat", "lookup"])
        await world.db.execute(
            "update perdure.outbox set created_at = now() - interval '2 h' where lifecycle = 'lookup'"
        )
        await world.db.execute("update perdure.outbox set seq = default where lifecycle = 'repeat'")
        await here.gauges.once()
        assert await here.value(names.RELAY_WAITING) == 2
        assert 7200 <= (await here.value(names.RELAY_LAG_SECONDS) or 0) < 10_800


async def test_the_gauges_show_the_age_of_a_database_that_was_never_reconciled(world: World) -> None:
    async with metered(world, reconciliation_every=24.0) as here:
        await world.db.execute("delete from perdure.reconciliation")
        await world.db.execute("update perdure.migration set applied_at = clock_timestamp() - interval '1 hour'")
        await here.gauges.once()
        assert 3600 < (await here.value(names.RECONCILIATION_AGE_SECONDS) or 0) < 3700


@pytest.mark.parametrize("last", ["never", "'300 days'"])
async def test_the_age_of_the_last_reconciliation_leaves_out_the_time_in_which_none_was_configured(
    world: World, last: str
) -> None:
    """Two have begun since it is configured, and none of them has ended."""
    async with metered(world, reconciliation_every=24.0, reconciliation=False) as here:
        await world.db.execute(
            "delete from perdure.reconciliation;"
            "update perdure.migration set applied_at = clock_timestamp() - interval '1 year';"
            "insert into perdure.reconciliation (asked_by, began_at, summary)"
            " values ('x', now() - interval '2 hours', '{}'), ('x', now() - interval '1 hour', '{}')"
        )
        if last != "never":
            await world.db.execute(
                "insert into perdure.reconciliation (asked_by, began_at, ended_at, summary)"
                f" values ('x', now() - interval {last}, now() - interval {last}, '{{}}')"
            )
        await here.gauges.once()
        assert 26 * 3600 < (await here.value(names.RECONCILIATION_AGE_SECONDS) or 0) < 27 * 3600


async def test_the_gauges_show_tasks_that_no_worker_takes(world: World) -> None:
    async with metered(world) as here:
        quiet = world.config.model_copy(update={"task_queue": f"nobody-{world.scope}"})
        here.queues._queues = [*here.queues._queues, (quiet.queue, "workflow")]
        quietly = {"task_queue": quiet.queue, "kind": "workflow"}
        await here.client.start_workflow("lookup", Booking(), id="x", task_queue=quiet.queue)

        async def seen() -> bool:
            await here.queues.once()
            main = world.config.queue
            ours = [await here.value(names.POLLERS, task_queue=main, kind=kind) for kind in ("workflow", "activity")]
            waiting = await here.value(names.BACKLOG, **quietly) == 1
            # Temporal counts a task a moment before it reports the task's age.
            aged = (await here.value(names.BACKLOG_SECONDS, **quietly) or 0) > 0
            return ours == [1, 1] and waiting and aged

        await world.until(seen, "a backlog of one, with an age, where nobody polls, and pollers at the other queue")
        assert await here.value(names.POLLERS, **quietly) == 0


async def test_exported_metrics_have_the_documented_names_and_labels(world: World) -> None:
    faulty = App([*app.lifecycles.values(), Faulty], [body for _, body in app.bodies.values()])
    async with metered(world, faulty) as here:
        world.counterparty.replies += [ACCEPTED_UNSAID]
        await world.db.execute("select perdure.start('faulty', 'b', '{}', 'here')")
        await world.db.execute("select perdure.start('lookup', 'c', '{\"seconds\": \"many\"}', $1)", SECRET)
        await commit_bookings(world, ["lookup"])
        assert await world.ended("lookup", "lookup") == "done"
        world.counterparty.replies_to["d"] = [{"not_done": "busy"}] * 30
        await world.client.start("lookup", "d", Booking(seconds=0.5))  # whether it is tried or not
        assert await world.ended("lookup", "d") == "expired"
        await world.until(lambda: world.db.fetchval("select attention from perdure.entity where id = 'c'"), "rejected")

        async def complete() -> bool:
            await here.gauges.once()
            known = {name for name, _ in await here.samples()}
            return set(names.SDK_METRICS) <= {re.sub("_(bucket|sum|count)$", "", each) for each in known}

        await world.until(complete, "the SDK's metrics")
        samples, text = await here.samples(), await here.text()

    declared = {each.name: each for each in names.METRICS}
    seen = set()
    of_sdk = {names.SCOPE, "namespace", "task_queue", "workflow_type", "activity_type", "le"}
    for name, labels in samples:
        if name.startswith("perdure_"):
            metric = declared[name if name in declared else re.sub("_(bucket|sum|count)$", "", name)]
            assert f"# TYPE {metric.name} {metric.kind}" in text
            assert {label for label, _ in labels} - of_sdk == set(metric.labels) - of_sdk
            seen.add(metric.name)
    rare = {names.RELAY_POSTPONED.name, names.MENDED.name}
    assert seen == set(declared) - rare
    assert SECRET not in text
    where = {("scope", world.scope), ("lifecycle", "lookup"), ("state", "other")}
    assert ("perdure_open", frozenset(where)) in samples
    assert {dict(labels).get(names.SCOPE) for _, labels in samples} == {world.scope}


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


async def test_nothing_of_what_an_entity_is_about_is_exported(world: World, collector: Collector) -> None:
    """Traces and metrics by OTLP, of a refusal, a doubt and a success whose every text is a secret."""
    booking = Booking(what=SECRET)
    entities = {kind: f"{kind}-4711" for kind in ("repeat", "lookup", "escalate-inline")}
    world.counterparty.replies_to["repeat-4711"] = [{"refused": SECRET}, {"not_done": SECRET}]
    world.counterparty.replies_to["lookup-4711"] = [ACCEPTED_UNSAID]
    worker = await world.spawn(**exports(collector), PERDURE_METRICS="otlp", OTEL_SERVICE_NAME="shop")
    for kind, entity in entities.items():
        await world.client.start(kind, entity, booking, tenant=SECRET)
    await world.is_in("repeat", "repeat-4711", "failed")
    await world.client.retry("repeat", "repeat-4711", by="ann", note=SECRET)
    for kind, entity in entities.items():
        assert await world.ended(kind, entity) == "done"
    await world.until(lambda: names.RELAY_LAG_SECONDS.name in collector.metrics, "the gauges")
    await world.until(lambda: len(collector.metrics.get(names.ATTEMPTS.name, ())) >= 4, "the counters")
    assert await worker.stop() == 0

    assert SECRET in str(await world.db.fetch("select * from perdure.transition"))  # it was there to be exported
    sent = b"".join(collector.bodies)
    assert len(collector.named(names.SPAN_ATTEMPT)) == 5
    assert SECRET.encode() not in sent
    assert "temporal_workflow_completed" in collector.metrics
    assert "4711" not in str(collector.metrics)
    assert {key for span in collector.spans for key in span.attributes} <= set(names.ATTRIBUTES)


async def test_without_the_settings_nothing_is_measured_and_nothing_is_traced(world: World) -> None:
    async with world.worker(app) as client:
        assert meter_of(client) is None
        assert client.config(active_config=True)["interceptors"] == []
        await world.client.start("lookup", "a", Booking())
        assert await world.ended("lookup", "a") == "done"
    assert "traceparent" not in world.counterparty.requests[0]


async def test_an_address_that_is_taken_is_said(world: World, here: Metered) -> None:
    taken = here._url.split("/")[2]
    config = world.config.model_copy(update={"metrics": f"prometheus:{taken}"})
    with (
        pytest.raises(InvalidSetting, match=f"PERDURE_METRICS='prometheus:{taken}': .*Address already in use"),
        exporting(config),
    ):
        raise AssertionError("it should not have come here")


def test_a_setting_that_means_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("PERDURE_METRICS", "prometheus"), ("PERDURE_TRACES", "jaeger")):
        monkeypatch.setenv(name, value)
        with pytest.raises(InvalidSetting, match=f"{name}='{value}'"):
            settings()
        monkeypatch.delenv(name)
