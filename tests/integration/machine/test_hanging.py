"""A Temporal server that hangs is killed and started again. One that lacks PostgreSQL alone is left as it is."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure._machine import hanging, temporal
from perdure._machine.folder import Folder
from perdure._machine.hanging import PARTIAL, Hanging
from perdure._worker.child import Child
from perdure.servers.ports import free_port
from perdure.servers.temporal_binary import obtain_temporal
from perdure.servers.temporal_on_postgres import FRONTEND
from tests.deadline import in_time, until
from tests.keeping import kept

NAMESPACE = "default"


class Served:
    """A dev server that is kept running."""

    def __init__(self, folder: Path) -> None:
        ports = Folder(folder).ports(free_port())
        self.address = f"127.0.0.1:{ports[FRONTEND]}"
        program = str(obtain_temporal())
        command = temporal.ending_with_parent([program, *temporal.try_options(ports, folder, NAMESPACE)])
        environment = temporal.environment_of_machine()
        self.child = Child("temporal", command, environment, until_ready=self._serves)

    async def _serves(self) -> None:
        await temporal.until_serving(self.address, NAMESPACE, timedelta(days=1))


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """It serves."""
    made = Served(tmp_path)
    async with kept(made.child):
        await in_time(made.child.ready.wait())
        yield made


async def test_a_server_that_stands_still_is_killed_and_serves_again(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hanging, "LOOK", 0.1)
    monkeypatch.setattr(hanging, "WITHIN", timedelta(seconds=1))
    hung = served.child.pid
    assert hung is not None
    watched = Hanging(served.child, served.address, NAMESPACE, temporal.check_parts)
    os.kill(hung, signal.SIGSTOP)
    watching = asyncio.create_task(watched.watch())
    try:
        await until(lambda: watched.pulse.problem, "it is seen")
        await until(lambda: served.child.status == -signal.SIGKILL, "it is killed")
        watching.cancel()
        await in_time(served.child.ready.wait())
    finally:
        watching.cancel()
    assert (served.child.starts, served.child.pid != hung) == (2, True)
    await in_time(temporal.check_parts(await Client.connect(served.address)))


async def test_without_postgresql_it_is_left_alone_and_a_restart_that_does_not_help_is_not_repeated_soon(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hanging, "LOOK", 0.01)
    monkeypatch.setattr(hanging, "WITHIN", timedelta(seconds=60))
    refusals, answers, there, killed = 0, 0, False, list[int]()

    async def no_part_answers(client: Client) -> None:
        raise RPCError("", RPCStatusCode.DEADLINE_EXCEEDED, b"")

    async def postgres() -> None:
        nonlocal refusals, answers
        if not there:
            refusals += 1
            raise OSError("it is away")
        answers += 1

    monkeypatch.setattr(served.child, "kill", lambda: killed.append(answers))
    watched = Hanging(served.child, served.address, NAMESPACE, no_part_answers, postgres)
    watching = asyncio.create_task(watched.watch())
    try:
        await until(lambda: refusals > 2 * PARTIAL, "looks without PostgreSQL")
        assert not killed
        assert watched.pulse.problem
        there = True
        await until(lambda: len(killed) == 2, "it is killed twice")
    finally:
        watching.cancel()
    assert killed[:2] == [PARTIAL, PARTIAL + 2 * PARTIAL]


async def test_an_answer_of_a_server_is_no_hang_whatever_it_says(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hanging, "LOOK", 0.01)
    looks = 0

    async def unknown(client: Client) -> None:
        nonlocal looks
        looks += 1
        await temporal.check_parts(await Client.connect(served.address, namespace="another"))

    watching = asyncio.create_task(Hanging(served.child, served.address, NAMESPACE, unknown).watch())
    try:
        await until(lambda: looks > 2 * PARTIAL, "looks")
    finally:
        watching.cancel()
    assert served.child.starts == 1
