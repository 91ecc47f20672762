"""One turn of one way: crowds for speed and CPU, a trickle for latency, histories for what Temporal counts."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

import psutil
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHistory

from bench.cost.life import Life, living
from bench.cost.pinning import cores, pinned
from bench.cost.rig import Rig
from bench.cost.ways import WAYS

PINNED = "_pinned"
"""Ends the names of figures of the crowd whose servers have one core and whose worker and app have another."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured.

    Attributes:
        rounds: how often each way has its turn, at most.
        minutes: no round begins that would take longer; one is always made.
        runs: runs of each crowd.
        in_flight: how many of them are open at once.
        trickle: starts of the trickle.
        every: seconds between two of them.
        settings: environment variables of all processes, `PERDURE_RELAY_POLL_INTERVAL` for one.
        durable: PostgreSQL syncs to disk.
    """

    rounds: int = 7
    minutes: float = 11
    runs: int = 300
    in_flight: int = 200
    trickle: int = 30
    every: float = 0.2
    settings: Mapping[str, str] = field(default_factory=dict)
    durable: bool = True

    @property
    def warm_up(self) -> int:
        """Runs before anything is measured."""
        return max(self.runs // 10, 5)


@dataclass(frozen=True, slots=True)
class Round:
    """What one turn of one way gave: figures, and the latencies in ms."""

    figures: dict[str, float]
    ms: list[float]


async def measure(rig: Rig, way: str, server: str, plan: Plan) -> Round:
    """One turn of `way` on a Temporal server."""
    before = await rig.counts(way)
    async with living(rig, way, server, plan.settings) as life:
        await life.order("crowd", runs=plan.warm_up, in_flight=plan.in_flight)
        figures, runs = await _crowd(rig, life, server, plan), plan.warm_up + plan.runs + plan.trickle
        if (on := cores()) is not None:
            with pinned(on, rig.pids(server), life.pids()):
                found = await _crowd(rig, life, server, plan)
            figures |= {f"{name}{PINNED}": value for name, value in found.items()}
            runs += plan.runs
        trickled = await life.order("trickle", runs=plan.trickle, every=plan.every)
        if WAYS[way].temporal:
            figures |= await _counted_by_temporal(await rig.temporal_client(server), trickled["ids"])
            figures["billable_actions"] += figures["heartbeats_per_run"]
    after = await rig.counts(way)
    kind = "writes" if WAYS[way].perdure else "updates"
    figures["db_writes_per_run"] = (after[kind] - before[kind]) / runs
    return Round(figures, trickled["ms"])


async def _crowd(rig: Rig, life: Life, server: str, plan: Plan) -> dict[str, float]:
    ours = [rig.server_cpu(server), rig.db_cpu(), life.worker_cpu()]
    written, beaten, machine = await rig.transactions(), rig.heartbeats(server), _machine()
    answer = await life.order("crowd", runs=plan.runs, in_flight=plan.in_flight)
    # What the app has seen the end of is not quite over at the server.
    await asyncio.sleep(0.3)
    now = [rig.server_cpu(server), rig.db_cpu(), life.worker_cpu()]
    temporal, database, worker = (after - before for after, before in zip(now, ours, strict=True))
    temporal *= WAYS[life.way].temporal
    worker += answer["cpu"]
    others = _machine() - machine - temporal - database - worker
    per_1000 = 1000 / plan.runs
    return {
        "runs_per_s": plan.runs / answer["seconds"],
        "cpu_s_per_1000": (temporal + database + worker) * per_1000,
        "server_cpu_s_per_1000": temporal * per_1000,
        "app_cpu_s_per_1000": worker * per_1000,
        "db_cpu_s_per_1000": database * per_1000,
        "transactions_per_run": (await rig.transactions() - written) / plan.runs,
        "heartbeats_per_run": (rig.heartbeats(server) - beaten) / plan.runs,
        "other_cores": max(others, 0.0) / (answer["seconds"] + 0.3),
    }


def _machine() -> float:
    """CPU seconds of all processes so far."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)


async def _counted_by_temporal(temporal_client: Client, workflow_ids: list[str]) -> dict[str, float]:
    handles = [temporal_client.get_workflow_handle(each) for each in workflow_ids]
    # The app sees the end in its own database, which is before the workflow itself is over.
    await asyncio.gather(*(each.result() for each in handles))
    histories = [await each.fetch_history() for each in handles]
    return {
        "history_events": float(statistics.median(len(each.events) for each in histories)),
        "billable_actions": float(statistics.median(actions(each) for each in histories)),
    }


def actions(history: WorkflowHistory) -> int:
    """The actions that Temporal Cloud would bill for this history, by https://docs.temporal.io/cloud/actions.

    A start, each start or retry of an activity, a timer, signal, update or upsert of search attributes is one;
    all local activities of one workflow task together are one. Heartbeats, which no history shows, come on top.
    """
    count, local = 0, False
    for event in history.events:
        kind = EventType.Name(event.event_type).removeprefix("EVENT_TYPE_")
        if kind in _BILLED:
            count += 1
        elif kind == "ACTIVITY_TASK_STARTED":
            count += event.activity_task_started_event_attributes.attempt
        elif kind == "WORKFLOW_TASK_COMPLETED":
            local = False
        elif kind == "MARKER_RECORDED" and event.marker_recorded_event_attributes.marker_name == "core_local_activity":
            count += not local
            local = True
    return count


_BILLED = (
    "WORKFLOW_EXECUTION_STARTED",
    "TIMER_STARTED",
    "WORKFLOW_EXECUTION_SIGNALED",
    "WORKFLOW_EXECUTION_UPDATE_ACCEPTED",
    "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES",
    "START_CHILD_WORKFLOW_EXECUTION_INITIATED",
)
