"""Crash points of an ordinary Temporal workflow, without PostgreSQL: a worker is killed at every one of them."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import secrets
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from temporalio import activity
from temporalio.client import Client, Plugin, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.service import ConnectConfig, ServiceClient
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor, Worker, WorkerConfig
from temporalio.worker import Plugin as WorkerPlugin

from perdure import _faults as faults
from perdure._loading import load
from perdure._worker.worker import leave
from perdure.errors import DeclarationError
from perdure.testing.crashing.case import FORK, exited, preload
from perdure.testing.crashing.places import Places, WatchedRunner
from perdure.testing.crashing.proof import CrashPointsFailed
from perdure.testing.crashing.victim import Line

_OPEN = "still open"
MakeWorker = Callable[[Client, str], Worker]
"""A function that makes the application's worker for a client and a task queue."""


@dataclass(slots=True)
class Killed:
    """One execution whose worker was killed at one place. The undisturbed one has no place.

    Attributes:
        place: the place at which the worker was killed.
        places: the places that the first worker passed, in order.
        status: the workflow's final status.
        happened: how often the effect happened at the other side.
        log: the output of the workers.
    """

    place: str = ""
    places: list[str] = field(default_factory=list)
    status: str = ""
    happened: int = 0
    hit: bool = False
    log: str = ""


async def workflow_crash_points(
    workflow: Callable[..., Any] | str,
    given: Any,
    *,
    worker: str,
    happened: Callable[[str], int | Awaitable[int]],
    temporal: str | None = None,
    environment: Mapping[str, str] | None = None,
    only: Callable[[str], bool] = lambda place: True,
    patience: float = 180.0,
    at_once: int = 4,
) -> list[Killed]:
    """Run a workflow once undisturbed, and once for each place at which its worker is killed by SIGKILL and replaced.

    Places are the borders of the workflow's tasks, those of its activities, and in `perdure.temporal.perform` those
    around the call.

    Args:
        workflow: its `run` method, or its name.
        given: its input.
        worker: `package.module:name` of a function that makes the worker, given a client and a task queue.
        happened: returns how often the effect happened for a workflow id, by the other side's records.
        temporal: `host:port` of the server; None = `TEMPORAL_ADDRESS`.
        environment: environment variables of the workers, such as the address of the other side.
        only: selects places.
        patience: seconds that an execution may take.
        at_once: number of executions at the same time.

    Returns:
        The executions, the undisturbed one first.

    Raises:
        CrashPointsFailed: an effect happened more or less often than undisturbed, or the workflow ended in another way.
        DeclarationError: there is no such function.

    Example:
        await workflow_crash_points(Transfer.run, details, worker="bank.worker:make", happened=bank.withdrawals)
    """
    if not callable(load(worker)):
        raise DeclarationError(f"{worker} is no function that makes a worker")
    await preload()
    address = temporal or os.environ.get("TEMPORAL_ADDRESS", "localhost:7233")
    run = _Run(workflow, given, worker, happened, address, dict(environment or {}), patience)
    undisturbed = await run.execute("")
    turn = asyncio.Semaphore(at_once)

    async def one(place: str) -> Killed:
        async with turn:
            return await run.execute(place)

    places = dict.fromkeys(each for each in undisturbed.places if only(each))
    killed = [undisturbed, *await asyncio.gather(*(one(place) for place in places))]
    if wrong := [text for each in killed if (text := _wrong(each, undisturbed))]:
        raise CrashPointsFailed("\n\n".join(wrong))
    return killed


def _wrong(seen: Killed, undisturbed: Killed) -> str:
    faults = []
    if seen.place and not seen.hit:
        faults.append("it never came by here: is the workflow deterministic?")
    if seen.happened != undisturbed.happened:
        faults.append(f"the effect happened {seen.happened} times; undisturbed it happens {undisturbed.happened} times")
    if seen.status != undisturbed.status:
        faults.append(f"it ended as {seen.status}; undisturbed it ends as {undisturbed.status}")
    if not faults:
        return ""
    return f"{seen.place or 'undisturbed'}: the worker is killed\n- " + "\n- ".join(faults) + f"\n{seen.log}"


@dataclass(frozen=True, slots=True)
class _Run:
    workflow: Callable[..., Any] | str
    given: Any
    worker: str
    happened: Callable[[str], int | Awaitable[int]]
    address: str
    environment: dict[str, str]
    patience: float

    async def execute(self, place: str) -> Killed:
        seen, name = Killed(place), f"crash-{secrets.token_hex(6)}"
        client = await Client.connect(self.address)
        line = await asyncio.start_server(lambda reader, writer: _note(reader, writer, seen), "127.0.0.1", 0)
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            port = line.sockets[0].getsockname()[1]
            orders = Orders(self.worker, self.address, name, self.environment, str(log), port, place)
            workers = [_started(orders)]
            try:
                handle = await client.start_workflow(self.workflow, self.given, id=name, task_queue=name)
                ending, gone = asyncio.create_task(_ended(handle)), asyncio.create_task(exited(workers[0]))
                await asyncio.wait({ending, gone}, timeout=self.patience, return_when=asyncio.FIRST_COMPLETED)
                if place:
                    await asyncio.wait({gone}, timeout=5)  # the last places are just behind the end
                seen.hit = gone.done() and gone.result() == -signal.SIGKILL
                if seen.hit:
                    workers.append(_started(dataclasses.replace(orders, port=None, die_at="")))
                await asyncio.wait({ending}, timeout=self.patience)
                seen.status = ending.result() if ending.done() else _OPEN
                for task in (ending, gone):
                    task.cancel()
                await asyncio.gather(ending, gone, return_exceptions=True)
                if seen.status == _OPEN:
                    await handle.terminate()
            finally:
                for each in workers:
                    each.kill()
                    await exited(each)
                line.close()
            seen.log = log.read_text(errors="replace") if log.exists() else ""
        count = self.happened(name)
        seen.happened = count if isinstance(count, int) else await count
        return seen


@dataclass(frozen=True, slots=True)
class Orders:
    """The order for a worker process.

    Attributes:
        worker: `package.module:name` of the function that makes the worker.
        address: address of Temporal.
        task_queue: task queue of this execution alone.
        environment: environment variables of the worker.
        log: file for its output.
        port: port of the test, which receives the names of places; None = it receives none.
        die_at: the place at which the process kills itself.
    """

    worker: str
    address: str
    task_queue: str
    environment: Mapping[str, str]
    log: str
    port: int | None
    die_at: str


def work(orders: Orders) -> None:
    """Run a worker; the target of the process."""
    os.environ.update(orders.environment)
    log = os.open(orders.log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    line = None if orders.port is None else Line(orders.port)

    def visit(place: str) -> None:
        if place == orders.die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if line is not None:
            line.say(place)

    faults.inject(Places(visit).reached)
    try:
        asyncio.run(_work(orders))
    except BaseException as error:
        print(f"the worker ended: {error!r}", file=sys.stderr)
    leave(1)


async def _work(orders: Orders) -> None:
    client = await Client.connect(orders.address, plugins=[_Watching()])
    made: Worker = load(orders.worker)(client, orders.task_queue)
    await made.run()


class _Watching(Plugin, WorkerPlugin):
    """Makes the borders of workflow tasks and of activities places."""

    def configure_client(self, config: Any) -> Any:
        return config

    async def connect_service_client(
        self, config: ConnectConfig, next: Callable[[ConnectConfig], Awaitable[ServiceClient]]
    ) -> ServiceClient:
        return await next(config)

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        # else a run in the cache of the killed worker waits for 10 s
        config["sticky_queue_schedule_to_start_timeout"] = timedelta(seconds=1)
        config["interceptors"] = [*config.get("interceptors", ()), _Activities()]
        return config

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:
        # Not in `configure_worker`: the worker's own plugins come later, and read its runner.
        inner = cast("Any", worker)._workflow_worker
        inner._workflow_runner = WatchedRunner(inner._workflow_runner, checks=False)
        await next(worker)

    def configure_replayer(self, config: Any) -> Any:
        return config

    def run_replayer(self, replayer: Any, histories: Any, next: Any) -> Any:
        return next(replayer, histories)


class _Activities(Interceptor):
    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _AtActivities(next)


class _AtActivities(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        name = activity.info().activity_type
        faults.point("before the activity", name)
        result = await super().execute_activity(input)
        faults.point("after the activity", name)
        return result


def _started(orders: Orders) -> Any:
    process = FORK.Process(target=work, args=(orders,), daemon=True)
    process.start()
    return process


async def _note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: Killed) -> None:
    """Store the names of the places that the worker passes."""
    with closing(writer), suppress(ConnectionError):  # the worker was killed
        while line := await reader.readline():
            seen.places.append(json.loads(line)["place"])


async def _ended(handle: WorkflowHandle[Any, Any]) -> str:
    with suppress(WorkflowFailureError):
        await handle.result()
    status = (await handle.describe()).status
    return status.name.lower() if isinstance(status, WorkflowExecutionStatus) else "unknown"
