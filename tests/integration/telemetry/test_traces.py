"""An entity has one trace, from the app's call to the other side, through all processes."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from perdure.telemetry import names
from tests.apps.contracts import Booking
from tests.collector import Collector, SeenSpan, collecting
from tests.counterparty import Counterparty
from tests.deadline import in_time
from tests.world import World

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
WITH_THE_TRACE = "select perdure.start($1, $2, $3::jsonb, traceparent => $4)"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


def calling() -> AbstractContextManager[Span]:
    """As in an app that was called with a trace: there is a current span, and no tracer provider."""
    context = TraceContextTextMapPropagator().extract({"traceparent": CALLER})
    return trace.use_span(trace.get_current_span(context))


def exports(collector: Collector, **more: str) -> dict[str, str]:
    """What a process must be told so that its spans arrive there, soon."""
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "OTEL_METRIC_EXPORT_INTERVAL": "200",
        "PERDURE_TRACES": "otlp",
        **more,
    }


def above(collector: Collector, span: SeenSpan) -> list[str]:
    """The names of the spans above one, the nearest first; the last is an id that no span here has."""
    by_id = {each.id: each for each in collector.spans}
    path, parent = [], span.parent
    while parent in by_id:
        path.append(by_id[parent].name)
        parent = by_id[parent].parent
    return [*path, parent]


async def test_one_trace_leads_from_the_apps_call_to_the_attempt(world: World, collector: Collector) -> None:
    """In an app that has a tracer provider and a Temporal worker of its own: no setting of perdure's is needed."""
    app = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.apps.traced", "lookup"),
        env={**world.environment(), **exports(collector), "OTEL_SERVICE_NAME": "shop", "PERDURE_TRACES": "otlp"},
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await in_time(app.communicate())
    assert said == b"done\n"
    await world.until(lambda: len(collector.spans) >= 6, "the spans")
    [attempt] = collector.named(names.SPAN_ATTEMPT)
    assert above(collector, attempt) == [
        "perdure.perform do-lookup",
        "perdure.run lookup",
        "perdure.deliver lookup",
        "perdure.start lookup",
        "request",
        "",
    ]
    assert len({each.trace for each in collector.spans}) == 1
    assert {each.service for each in collector.spans} == {"shop"}
    [start], [deliver] = collector.named(names.SPAN_START), collector.named(names.SPAN_DELIVER)
    assert (start.kind - 1, deliver.kind - 1) == (SpanKind.PRODUCER.value, SpanKind.CONSUMER.value)


async def test_trace_and_counts_go_on_in_the_worker_that_takes_over(world: World, collector: Collector) -> None:
    async with Counterparty().serving() as unreachable:
        unreachable.before_accepting.shut()
        first = await world.spawn(**exports(collector), COUNTERPARTY_PORT=str(unreachable.port))
        assert await world.db.fetchval(WITH_THE_TRACE, "lookup", "a", "{}", CALLER) == "started"
        await unreachable.saw("do")
        await world.until(lambda: collector.named(names.SPAN_DELIVER), "the first worker's span")
        await world.until(lambda: world.db.fetchval("select count(*) = 0 from perdure.outbox"), "delivered for good")
        await first.kill()
    second = await world.spawn(**exports(collector), PERDURE_METRICS="otlp")
    assert await world.ended("lookup", "a") == "done"
    await world.until(lambda: len(collector.metrics.get(names.ATTEMPTS.name, ())) == 2, "both attempts counted")
    assert await second.stop() == 0

    assert {each.trace for each in collector.spans} == {CALLER.split("-")[1]}
    [attempt], [deliver] = collector.named(names.SPAN_ATTEMPT), collector.named(names.SPAN_DELIVER)
    assert deliver.parent == CALLER.split("-")[2]
    assert above(collector, attempt)[:3] == [
        "perdure.perform do-lookup",
        "perdure.run lookup",
        "perdure.deliver lookup",
    ]
    assert {above(collector, each)[0] for each in collector.named(names.SPAN_LOOK_UP)} == {"perdure.perform do-lookup"}
    assert attempt.attributes[names.ATTEMPT] == "2"

    outcomes = {each["outcome"] for each in collector.metrics[names.ATTEMPTS.name]}
    assert outcomes == {"in_doubt", "done"}  # the first one's was the lost worker's

    # What the first worker told the other side names a span of the same trace, which died with it.
    [lost], [made] = unreachable.requests, [each for each in world.counterparty.requests if each["op"] == "do"]
    assert lost["traceparent"].split("-")[1] == CALLER.split("-")[1]
    assert made["traceparent"] == f"00-{attempt.trace}-{attempt.id}-01"


async def test_a_history_that_is_replayed_at_every_step_makes_each_span_once(
    world: World, collector: Collector
) -> None:
    world.counterparty.replies += [{"not_done": "busy"}, {"close": True}]
    worker = await world.spawn(**exports(collector), PERDURE_MAX_CACHED_WORKFLOWS="0")
    await world.db.execute(WITH_THE_TRACE, "repeat", "a", "{}", CALLER)
    assert await world.ended("repeat", "a") == "done"
    assert await worker.stop() == 0
    assert Counter(each.name for each in collector.spans) == {
        "perdure.deliver repeat": 1,
        "perdure.run repeat": 1,
        "perdure.perform do-repeat": 1,
        "perdure.attempt do-repeat": 3,
    }
    attempts = collector.named(names.SPAN_ATTEMPT)
    assert [each.attributes[names.OUTCOME] for each in attempts] == ["not_done", "in_doubt", "done"]
    # All below the very same spans, though each was begun anew before each attempt.
    path = ("perdure.perform do-repeat", "perdure.run repeat", "perdure.deliver repeat", CALLER.split("-")[2])
    assert {tuple(above(collector, each)) for each in attempts} == {path}
    assert [each.status == StatusCode.ERROR.value for each in attempts] == [True, True, False]
    [run], [perform] = collector.named(names.SPAN_RUN), collector.named(names.SPAN_PERFORM)
    assert run.seconds >= perform.seconds >= 0.1  # at least one pause before an attempt lies in it


async def test_a_run_that_leaves_a_workers_memory_makes_no_span_before_it_is_over(
    world: World, collector: Collector
) -> None:
    worker = await world.spawn(**exports(collector), PERDURE_MAX_CACHED_WORKFLOWS="0")
    world.counterparty.replies += [{"refused": "no"}]
    await world.db.execute(WITH_THE_TRACE, "repeat", "a", "{}", CALLER)
    await world.is_in("repeat", "a", "failed")

    async def replayed() -> bool:
        return await world.at_rest("repeat", "a") is not None

    await world.until(replayed, "repeat/a answered a query at rest")
    assert await worker.stop() == 0
    assert {each.name for each in collector.spans} == {
        "perdure.deliver repeat", "perdure.perform do-repeat", "perdure.attempt do-repeat",
    }  # fmt: skip


async def test_an_app_that_only_passes_a_trace_on_gives_it_to_the_outbox(world: World) -> None:
    with calling():
        await world.client.start("lookup", "a", Booking())
    await world.client.start("lookup", "b", Booking())
    rows = await world.db.fetch("select traceparent from perdure.outbox order by seq")
    assert [row["traceparent"] for row in rows] == [CALLER, None]


async def test_a_restart_takes_its_trace_along_too(world: World) -> None:
    await world.db.execute(WITH_THE_TRACE, "lookup", "a", "{}", None)
    await world.db.execute("delete from perdure.outbox; delete from perdure.entity")
    await world.db.execute("update perdure.ident set final = 'done'")
    with calling():
        await world.client.restart("lookup", "a", by="ann", note="again", given=Booking())
    assert await world.db.fetchval("select traceparent from perdure.outbox") == CALLER


MALFORMED = [
    "", "x", "00", CALLER.upper(), CALLER + "\n", CALLER[:-1], CALLER + "-more", "ff" + CALLER[2:], "'; drop table",
    "00-" + "0" * 32 + CALLER[35:], CALLER[:36] + "0" * 16 + "-01", "€" * 60, "x" * 100_000,
]  # fmt: skip


async def test_no_malformed_trace_stops_a_start(world: World) -> None:
    for number, given in enumerate(MALFORMED):
        assert await world.db.fetchval(WITH_THE_TRACE, "lookup", str(number), "{}", given) == "started"
    assert await world.db.fetchval("select count(traceparent) from perdure.outbox") == 0
    assert await world.db.fetchval("select count(*) from perdure.outbox") == len(MALFORMED)
