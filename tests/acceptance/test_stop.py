"""Stopping is safe (SIGTERM, SIGINT): calls end or are reported in doubt at once, the exit status is 0.

That holds under load, during start-up, and with PostgreSQL or Temporal gone.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
from collections import Counter
from collections.abc import Callable

import pytest
from temporalio.api.enums.v1 import TimeoutType

from infra.certificates import self_signed
from perdure.contracts import EffectStatus
from perdure.testing.proxy import proxied
from tests.acceptance.bookings import (
    LOOKUPS,
    PARKED,
    attempts,
    commit_bookings,
    every_record_says_done,
    key,
    sends,
    settle_parked,
)
from tests.apps import threaded
from tests.world import FreshWorkerProcess, WorkerProcess, World


async def test_twenty_stops_under_load_leave_nothing_that_waits_for_a_time_out(world: World) -> None:
    """Ten times two workers, with twenty bookings under way: two fresh ones run before the two are stopped."""
    world.counterparty.takes = 0.1, 0.5
    bookings = [(kind, f"{number}-{kind}") for number in range(100) for kind in LOOKUPS]
    workers = await spawn_two(world)
    for begin in range(0, len(bookings), 20):
        fresh = await spawn_two(world)
        for kind, entity_id in bookings[begin : begin + 20]:
            await commit_bookings(world, [kind], [entity_id])
        await world.counterparty.saw("do", count=begin + 10)
        assert await asyncio.gather(*(worker.stop() for worker in workers)) == [0, 0]
        workers = fresh
    for booking in bookings:
        await world.ended(*booking)

    await every_record_says_done(world)
    assert world.counterparty.accepted == {key(*booking): 1 for booking in bookings}
    assert world.counterparty.asked, "no call was cut off, so nothing was put to the test"
    # Each attempt was reported by the worker that had it on record. (A task that Temporal handed to a poll which was
    # just being closed has no record: nothing had begun, and the next attempt follows its heartbeat time-out.)
    ends = re.findall(r"attempt ended .*key=(\S+)", "".join(worker.text() for worker in world.workers))
    effects = await world.db.fetch("select key, attempts from perdure.effect")
    assert Counter(ends) == {row["key"]: row["attempts"] for row in effects}


async def test_a_call_that_ends_within_the_grace_time_is_done(world: World) -> None:
    world.counterparty.before_replying.shut()
    worker = await world.spawn(PERDURE_GRACEFUL_SHUTDOWN_TIMEOUT="20")
    await commit_bookings(world, LOOKUPS)
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
    worker = await world.spawn(PERDURE_GRACEFUL_SHUTDOWN_TIMEOUT="0.2")
    await commit_bookings(world, PARKED)
    await world.counterparty.has_accepted(len(PARKED))
    assert (await worker.stop(), await statuses(world)) == (0, dict.fromkeys(PARKED, "in_doubt"))
    # Had it waited for the calls to end, their own time-outs would be the reason.
    whys = await world.db.fetch("select why from perdure.effect")
    assert [row["why"] for row in whys] == ["the worker stopped in the middle"] * len(PARKED)

    await world.spawn()
    await settle_parked(world, PARKED, EffectStatus.DONE)
    for kind in PARKED:
        await world.ended(kind, kind)
        assert not await timed_out(world, kind, kind)
    await every_record_says_done(world)
    assert world.counterparty.accepted == {key(kind): 1 for kind in PARKED}


@pytest.mark.parametrize("again", [signal.SIGINT, signal.SIGTERM])
async def test_a_second_signal_changes_nothing(world: World, again: signal.Signals) -> None:
    world.counterparty.before_replying.shut()
    worker = await world.spawn(PERDURE_GRACEFUL_SHUTDOWN_TIMEOUT="20")
    await commit_bookings(world, ["escalate"])
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
    worker = await mortal.spawn(PERDURE_GRACEFUL_SHUTDOWN_TIMEOUT="0.2")
    await commit_bookings(mortal, LOOKUPS)
    await mortal.counterparty.has_accepted(len(LOOKUPS))
    OUTAGES[outage](mortal)
    assert await worker.stop() == 0

    await mortal.servers_are_back()
    mortal.counterparty.before_replying.open()
    await mortal.spawn()
    for kind in LOOKUPS:
        await mortal.ended(kind, kind)
    await every_record_says_done(mortal)
    assert sends(mortal.counterparty) == mortal.counterparty.accepted == {key(kind): 1 for kind in LOOKUPS}


async def test_the_grace_time_and_the_end_wait_for_no_service_that_a_silent_postgresql_holds_up(world: World) -> None:
    world.counterparty.before_replying.shut()
    async with proxied(world.postgres.port) as proxy:
        worker = await world.spawn(
            "tests.apps.lingering:app",
            PERDURE_GRACEFUL_SHUTDOWN_TIMEOUT="0.2",
            PERDURE_DATABASE_URL=world.dsn.replace(f":{world.postgres.port}/", f":{proxy.port}/"),
            BOOKING_TIMEOUT="100",
        )
        await commit_bookings(world, PARKED)
        await world.counterparty.has_accepted(len(PARKED))
        proxy.freeze(new_ones=True)
        await world.until(lambda: "PostgreSQL does not answer" in worker.text(), "a service that waits in vain")
        worker.send(signal.SIGTERM)
        stopped = "the worker stopped in the middle"
        await world.until(lambda: worker.text().count(stopped) >= len(PARKED), "the end of the grace time")
        assert await worker.gone() == 0


@pytest.mark.world(threaded.app)
async def test_the_thread_of_a_body_does_not_outlast_the_grace_time(world: World) -> None:
    worker = await world.spawn("tests.apps.threaded:app", PERDURE_GRACEFUL_SHUTDOWN_TIMEOUT="0.2")
    await world.client.start("printing", "a", None)
    await world.until(lambda: "the thread runs" in worker.text(), "the body's thread")
    worker.send(signal.SIGTERM)
    assert await worker.gone() == 0
    assert await statuses(world) == {"printing": "in_doubt"}


async def test_a_stop_during_start_up_is_a_stop(world: World) -> None:
    """While the app is imported, while Temporal and while PostgreSQL do not answer yet.

    It waits for none of them: a worker that has given one of them up exits with 1.
    """
    importing = world.folder / "importing"
    slow = f"import pathlib, time\npathlib.Path({str(importing)!r}).touch()\ntime.sleep(999)\n"
    (world.folder / "slow.py").write_text(slow)
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as silent_too:
        mute, mute_too = (f"127.0.0.1:{each.getsockname()[1]}" for each in (silent, silent_too))
        workers = [
            FreshWorkerProcess(world, "slow:app", {"PYTHONPATH": os.pathsep.join([".", str(world.folder)])}),
            FreshWorkerProcess(world, "tests.apps.bodies:app", {"TEMPORAL_ADDRESS": mute}),
            FreshWorkerProcess(
                world, "tests.apps.bodies:app", {"PERDURE_DATABASE_URL": f"postgresql://x@{mute_too}/x"}
            ),
        ]
        world.workers.extend(workers)
        await asyncio.gather(*(worker.launch() for worker in workers))
        await world.until(importing.exists, "the app being imported")
        held = [(await asyncio.to_thread(server.accept))[0] for server in (silent, silent_too)]
        assert await asyncio.gather(*(worker.stop() for worker in workers)) == [0, 0, 0]
        for connection in held:
            connection.close()


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
    "no such namespace": (
        "tests.apps.bodies:app",
        {"TEMPORAL_NAMESPACE": "nope"},
        "has no namespace 'nope': make it (`temporal operator namespace create --namespace nope --address {temporal}`)",
    ),
    "TLS where the server has none": (
        "tests.apps.bodies:app",
        {"TEMPORAL_TLS": "true"},
        "the server at {temporal} does not use TLS, and this client does: set TEMPORAL_TLS=false",
    ),
    "a server with TLS": (
        "tests.apps.bodies:app",
        {"TEMPORAL_ADDRESS": "{tls}"},
        "the server at {tls} closes the connection: if it uses TLS, set TEMPORAL_TLS=true",
    ),
    "a certificate of nobody": (
        "tests.apps.bodies:app",
        {"TEMPORAL_ADDRESS": "{tls}", "TEMPORAL_TLS": "true"},
        "the certificate of the server at {tls} is not trusted: set TEMPORAL_TLS_SERVER_CA_CERT_PATH",
    ),
    "wrong URL": ("tests.apps.bodies:app", {"PERDURE_DATABASE_URL": "mysql://x"}, "PERDURE_DATABASE_URL"),
    "wrong number": (
        "tests.apps.bodies:app",
        {"PERDURE_GRACEFUL_SHUTDOWN_TIMEOUT": "soon"},
        "PERDURE_GRACEFUL_SHUTDOWN_TIMEOUT='soon'",
    ),
    "wrong scope": ("tests.apps.bodies:app", {"PERDURE_SCOPE": "The Shop"}, "PERDURE_SCOPE='The Shop'"),
    "no such module": ("tests.apps.nothing:app", {}, "tests.apps.nothing"),
    "no such name": ("tests.apps.bodies:nothing", {}, "has no 'nothing'"),
    "no App": ("tests.apps.bodies:MARCH", {}, "not a perdure App"),
    "no path": ("bodies", {}, "there is no module 'bodies'"),
    "no lifecycle": ("tests.apps.contracts", {}, "no lifecycle is defined in tests.apps.contracts"),
    "no body": ("tests.apps.bodiless:app", {}, "has no body"),
}


async def test_a_worker_that_cannot_run_prints_one_line_and_exits_with_2_where_app_or_setting_is_wrong(
    world: World,
) -> None:
    certificate = self_signed(world.folder)
    encrypted = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=certificate.context())
    tls = f"127.0.0.1:{encrypted.sockets[0].getsockname()[1]}"
    there = {"server": world.dsn.rpartition("/")[0], "temporal": world.temporal.address, "tls": tls}

    async def outcome(app: str, environment: dict[str, str]) -> tuple[int, str]:
        worker = WorkerProcess(world, app, {k: v.format(**there) for k, v in environment.items()})
        world.workers.append(worker)
        await worker.launch()
        return await worker.gone(), worker.text()

    async with encrypted:
        outcomes = await asyncio.gather(*(outcome(app, environment) for app, environment, _ in BAD_INPUT.values()))
    for (name, (_, _, words)), (status, text) in zip(BAD_INPUT.items(), outcomes, strict=True):
        assert status == (2 if "[PERDURE-410" in text or "[PERDURE-1101]" in text else 1), (name, text)
        assert (status == 2) >= name.startswith("wrong "), (name, text)
        [line] = [each for each in text.splitlines() if " waits for " not in each]  # which it says before it gives up
        assert line.startswith("perdure: "), (name, text)
        assert words.format(**there) in line, (name, text)


async def spawn_two(world: World) -> list[WorkerProcess]:
    """Two workers with little grace."""
    return await asyncio.gather(*(world.spawn(PERDURE_GRACEFUL_SHUTDOWN_TIMEOUT="0.2") for _ in range(2)))


async def statuses(world: World) -> dict[str, str]:
    """What the fence says, by kind."""
    return {row["lifecycle"]: row["status"] for row in await world.db.fetch("select * from perdure.effect")}


async def timed_out(world: World, kind: str, entity_id: str) -> list[str]:
    """The time-outs in its history, but for the second for which a workflow's own worker has its next task first."""
    found = []
    for event in (await world.handle(kind, entity_id).fetch_history()).events:
        if event.HasField("activity_task_timed_out_event_attributes"):
            failure = event.activity_task_timed_out_event_attributes.failure
            found.append(f"activity: {TimeoutType.Name(failure.timeout_failure_info.timeout_type)}")
        elif event.HasField("workflow_task_timed_out_event_attributes"):
            timeout = event.workflow_task_timed_out_event_attributes.timeout_type
            if timeout != TimeoutType.TIMEOUT_TYPE_SCHEDULE_TO_START:
                found.append(f"workflow task: {TimeoutType.Name(timeout)}")
    return found
