"""Stopping is safe (SIGTERM, SIGINT): calls end or are reported in doubt at once, the exit status is 0.

That holds under load, during start-up, and with PostgreSQL or Temporal gone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable
from itertools import cycle

import pytest
from temporalio.api.enums.v1 import EventType

from tests.acceptance.errands import LOOKUPS, attempts, commit_errands, every_record_says_done, key, sends
from tests.world import WorkerProcess, World

A_FEW_SECONDS = 6.0
"""Beyond the grace time: 3 to report, 2 for an engine that does not answer, 1 for a busy machine."""
TIMED_OUT = {EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT, EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT}


async def test_twenty_stops_under_load_leave_nothing_that_waits_for_a_time_out(world: World) -> None:
    world.counterparty.takes = 0.1, 0.5
    workers = await spawn_four(world)
    kinds = cycle(LOOKUPS)
    ids = [str(number) for number in range(200)]
    for begin in range(0, len(ids), 40):
        fresh = await spawn_four(world)
        for entity_id in ids[begin : begin + 40]:
            await commit_errands(world, [next(kinds)], [entity_id])
        await world.counterparty.saw("do", count=begin + 20)
        for status, seconds in await asyncio.gather(*(stopped(worker) for worker in workers)):
            assert status == 0
            assert seconds < 0.2 + A_FEW_SECONDS
        workers = fresh
    for kind, entity_id in zip(cycle(LOOKUPS), ids, strict=False):
        await world.ended(kind, entity_id)

    await every_record_says_done(world)
    assert set(world.counterparty.accepted.values()) == {1}
    assert world.counterparty.asked, "no call was cut off, so nothing was put to the test"
    assert not {
        event for kind, each in zip(cycle(LOOKUPS), ids, strict=False) for event in await timed_out(world, kind, each)
    }


async def test_a_call_that_ends_within_the_grace_time_is_done(world: World) -> None:
    world.counterparty.before_replying.shut()
    worker = await world.spawn(PERDURE_GRACE="20")
    await commit_errands(world, LOOKUPS)
    await world.counterparty.has_accepted(len(LOOKUPS))
    worker.send(signal.SIGTERM)
    await world.until(lambda: "perdure.worker: stopping" in worker.text(), "the worker stopping")
    world.counterparty.before_replying.open()
    assert await worker.gone() == 0
    assert await statuses(world) == dict.fromkeys(LOOKUPS, "done")

    await world.spawn()
    for kind in LOOKUPS:
        await world.ended(kind, kind)
    await every_record_says_done(world)
    assert not world.counterparty.asked
    assert await attempts(world) == dict.fromkeys(LOOKUPS, 1)


async def test_a_call_that_does_not_is_in_doubt_at_once(world: World) -> None:
    world.counterparty.before_replying.shut()
    worker = await world.spawn(PERDURE_GRACE="0.2")
    await commit_errands(world, LOOKUPS)
    await world.counterparty.has_accepted(len(LOOKUPS))
    status, seconds = await stopped(worker)
    assert (status, await statuses(world)) == (0, dict.fromkeys(LOOKUPS, "in_doubt"))
    assert seconds < 0.2 + A_FEW_SECONDS

    await world.spawn()
    for kind in LOOKUPS:
        await world.ended(kind, kind)
        assert not await timed_out(world, kind, kind)
    await every_record_says_done(world)
    assert world.counterparty.accepted == {key(kind): 1 for kind in LOOKUPS}


@pytest.mark.parametrize("again", [signal.SIGINT, signal.SIGTERM])
async def test_a_second_signal_changes_nothing(world: World, again: signal.Signals) -> None:
    world.counterparty.before_replying.shut()
    worker = await world.spawn(PERDURE_GRACE="20")
    await commit_errands(world, ["escalate"])
    await world.counterparty.has_accepted(1)
    worker.send(signal.SIGINT)
    await world.until(lambda: "perdure.worker: stopping" in worker.text(), "the worker stopping")
    worker.send(again)
    world.counterparty.before_replying.open()
    assert await worker.gone() == 0
    assert await statuses(world) == {"escalate": "done"}


OUTAGES: dict[str, Callable[[World], None]] = {
    "PostgreSQL stopped": lambda world: world.postgres.stop("immediate"),
    "Temporal killed": lambda world: world.temporal.kill(),
    "Temporal frozen": lambda world: world.temporal.pause(),
}


@pytest.mark.parametrize("outage", OUTAGES)
async def test_a_stop_with_a_server_gone_is_a_stop_and_loses_nothing(mortal: World, outage: str) -> None:
    mortal.counterparty.before_replying.shut()
    worker = await mortal.spawn(PERDURE_GRACE="0.2")
    await commit_errands(mortal, LOOKUPS)
    await mortal.counterparty.has_accepted(len(LOOKUPS))
    OUTAGES[outage](mortal)
    status, seconds = await stopped(worker)
    assert status == 0
    assert seconds < 0.2 + A_FEW_SECONDS + 6  # relay and follower have 2 s each, and so has the pool

    await mortal.servers_are_back()
    mortal.counterparty.before_replying.open()
    await mortal.spawn()
    for kind in LOOKUPS:
        await mortal.ended(kind, kind)
    await every_record_says_done(mortal)
    assert sends(mortal) == mortal.counterparty.accepted == {key(kind): 1 for kind in LOOKUPS}


async def test_a_stop_during_start_up_is_a_stop(world: World) -> None:
    """While the app is imported, while Temporal and while PostgreSQL do not answer yet."""
    importing = world.folder / "importing"
    (world.folder / "slow.py").write_text(
        f"import pathlib, time\npathlib.Path({str(importing)!r}).touch()\ntime.sleep(99)\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as silent_too:
        mute, mute_too = (f"127.0.0.1:{each.getsockname()[1]}" for each in (silent, silent_too))
        workers = [
            WorkerProcess(world, "slow:app", {"PYTHONPATH": os.pathsep.join([".", str(world.folder)])}),
            WorkerProcess(world, "tests.apps.bodies:app", {"TEMPORAL_ADDRESS": mute}),
            WorkerProcess(world, "tests.apps.bodies:app", {"PERDURE_DATABASE_URL": f"postgresql://x@{mute_too}/x"}),
        ]
        world.workers.extend(workers)
        await asyncio.gather(*(worker.launch() for worker in workers))
        await world.until(importing.exists, "the app being imported")
        for server in (silent, silent_too):
            await asyncio.to_thread(server.accept)
        for status, seconds in await asyncio.gather(*(stopped(worker) for worker in workers)):
            assert status == 0
            assert seconds < A_FEW_SECONDS


BAD_INPUT: dict[str, tuple[str, dict[str, str], str]] = {
    "no such database": ("tests.apps.bodies:app", {"PERDURE_DATABASE_URL": "{server}/nowhere"}, "nowhere"),
    "no schema": ("tests.apps.bodies:app", {"PERDURE_DATABASE_URL": "{server}/postgres"}, "run `perdure migrate`"),
    "no PostgreSQL": (
        "tests.apps.bodies:app",
        {"PERDURE_DATABASE_URL": "postgresql://x@127.0.0.1:9/x"},
        "127.0.0.1:9/x",
    ),
    "no Temporal": (
        "tests.apps.bodies:app",
        {"TEMPORAL_ADDRESS": "127.0.0.1:9"},
        "no Temporal server answers at 127.0.0.1:9",
    ),
    "wrong URL": ("tests.apps.bodies:app", {"PERDURE_DATABASE_URL": "mysql://x"}, "PERDURE_DATABASE_URL"),
    "wrong number": ("tests.apps.bodies:app", {"PERDURE_GRACE": "soon"}, "PERDURE_GRACE='soon'"),
    "wrong scope": ("tests.apps.bodies:app", {"PERDURE_SCOPE": "The Shop"}, "PERDURE_SCOPE='The Shop'"),
    "no such module": ("tests.apps.nothing:app", {}, "tests.apps.nothing"),
    "no such name": ("tests.apps.bodies:nothing", {}, "has no 'nothing'"),
    "no App": ("tests.apps.bodies:MARCH", {}, "not a perdure App"),
    "no path": ("bodies", {}, "write package.module:app"),
    "no body": ("tests.apps.bodiless:app", {}, "has no body"),
}


async def test_what_can_not_run_says_so_in_one_line_and_exits_1(world: World) -> None:
    server = world.dsn.rpartition("/")[0]

    async def outcome(app: str, environment: dict[str, str]) -> tuple[int, str]:
        worker = WorkerProcess(world, app, {k: v.format(server=server) for k, v in environment.items()})
        world.workers.append(worker)
        await worker.launch()
        return await worker.gone(within=30), worker.text()

    outcomes = await asyncio.gather(*(outcome(app, environment) for app, environment, _ in BAD_INPUT.values()))
    for (name, (_, _, words)), (status, text) in zip(BAD_INPUT.items(), outcomes, strict=True):
        assert status == 1, (name, text)
        assert text.startswith("perdure: "), (name, text)
        assert words in text, (name, text)
        assert text.count("\n") == 1, (name, text)


async def spawn_four(world: World) -> list[WorkerProcess]:
    """Four workers with little grace."""
    return await asyncio.gather(*(world.spawn(PERDURE_GRACE="0.2") for _ in range(4)))


async def stopped(worker: WorkerProcess) -> tuple[int, float]:
    """SIGTERM: its exit status, and how long that took."""
    began = time.monotonic()
    return await worker.stop(), time.monotonic() - began


async def statuses(world: World) -> dict[str, str]:
    """What the fence says, by kind."""
    return {row["lifecycle"]: row["status"] for row in await world.db.fetch("select * from perdure.effect")}


async def timed_out(world: World, kind: str, entity_id: str) -> set[str]:
    """Kinds of time-outs in its history."""
    history = await world.handle(kind, entity_id).fetch_history()
    return {EventType.Name(event.event_type) for event in history.events if event.event_type in TIMED_OUT}
