"""A worker process: `perdure worker package.module:app`. It stops in order, and exits 0 even if servers are down."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, NoReturn

from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.runtime import Runtime
from temporalio.worker import PollerBehaviorAutoscaling, Worker, WorkerDeploymentConfig

from perdure._loading import load, load_module
from perdure._services.credentials import CONNECT, Renewal, profile, renewed, why_not
from perdure._services.health import EventLoop, Health
from perdure._services.queues import is_of_effects
from perdure._worker.namespace import check_namespace
from perdure._worker.notifying import READY, notify, notify_stopping
from perdure._worker.plugin import REPORTING, PerdurePlugin
from perdure._worker.serving import probes, serving
from perdure.app import App
from perdure.errors import DeclarationError, PerdureError, TemporalUnavailable
from perdure.logs import log_event, long_wait
from perdure.settings import Settings
from perdure.telemetry.exporting import exporting

log = logging.getLogger("perdure.worker")

STICKY = timedelta(seconds=1)
"""How long a workflow task waits for a worker that may be gone: 1 s, because a kill cost 12 s with the default."""

POLLERS = PollerBehaviorAutoscaling(minimum=4, maximum=60, initial=20)
"""Pollers of workflow tasks. Most of the SDK's five wait for tasks of cached runs, so starts have few."""

EFFECT_POLLERS = PollerBehaviorAutoscaling(minimum=5, maximum=60, initial=20)
"""Pollers of effects that are activities. Each brings one task at a time, and a Temporal server before 1.32 does not
hand out an activity with the answer to the workflow task that orders it. With the SDK's five, effects of a burst waited
up to eleven seconds."""

WORKFLOW_TASKS = 300
"""Slots for workflow tasks. Each poller and each inline effect under way holds one. With the SDK's 100, a burst of
starts found too few, and Temporal put most of them into the task queue, which costs a third more CPU."""

YOUNG = 10_000
"""New objects after which Python collects garbage. A run makes thousands of objects. With Python's default of 700,
collections take 3.2 % of a worker's CPU, and with this 0.8 %; the pauses of 25 ms for old objects are rarer too."""


LAST_ROUND = 0.5
"""Seconds that the round of the relay that is under way may take before the grace time begins."""


def load_app(path: str) -> App:
    """The app at `package.module:name`; without a name, the app of all lifecycles that the module defines.

    Raises:
        DeclarationError: there is no app. The message has the reason.
    """
    if ":" not in path:
        return App.discover(load_module(path, path).__name__)
    found = load(path)
    if not isinstance(found, App):
        raise DeclarationError(f"{path!r} is a {type(found).__name__}, not a perdure App")
    return found


async def connect(plugin: PerdurePlugin, *, identity: str | None = None, runtime: Runtime | None = None) -> Client:
    """A Temporal client from `TEMPORAL_*` and its profiles.

    Raises:
        TemporalUnavailable: no server answers, or it has no such namespace, or refuses it. The message names the
            address.
        InvalidSetting: a file or a profile cannot be used.
    """
    with long_wait(log, "waits for Temporal"):
        return (await connect_renewed(plugin, identity=identity, runtime=runtime))[0]


@asynccontextmanager
async def staying_connected(
    plugin: PerdurePlugin, stop: asyncio.Task[bool], runtime: Runtime, health: Health
) -> AsyncIterator[Client | None]:
    """A client as from `connect`, which is connected anew when its certificates or its API key change; None if the
    process is stopped before."""
    connecting = asyncio.create_task(connect_renewed(plugin, identity=new_identity(), runtime=runtime))
    if not await before(stop, connecting):
        yield None
        return
    client, renewal = await connecting
    health.watch(renewal.pulses)
    await renewal.start()
    try:
        yield client
    finally:
        await renewal.stop()


async def connect_renewed(
    plugin: PerdurePlugin, *, identity: str | None = None, runtime: Runtime | None = None
) -> tuple[Client, Renewal]:
    """A client as from `connect`, and the service that connects it anew when its certificates or its API key change.
    The service is not started."""
    made_with = profile()
    address = made_with.setdefault("target_host", "localhost:7233")
    try:
        client = await asyncio.wait_for(
            Client.connect(**made_with, plugins=[plugin], identity=identity, runtime=runtime), CONNECT
        )
        await check_namespace(client)
    except (RuntimeError, TimeoutError, ValueError) as error:
        if isinstance(error, PerdureError):
            raise
        raise TemporalUnavailable(why_not(address, error)) from error
    return client, Renewal(client, made_with)


async def run_worker(app: App, config: Settings, *, plugin: PerdurePlugin | None = None) -> None:
    """Run a worker until SIGTERM or SIGINT. It then takes no new work, lets calls end within the grace time, and
    reports the others as in doubt."""
    plugin = plugin or PerdurePlugin(app, config)
    with (
        exporting(config) as runtime,
        serving(f"PERDURE_HEALTH={config.health!r}", config.health, probes(plugin.health)),
    ):
        await _run(app, config, plugin, runtime)


async def _run(app: App, config: Settings, plugin: PerdurePlugin, runtime: Runtime) -> None:
    stop, loop = stop_requested(), EventLoop()
    plugin.health.watch(loop.pulses)
    await loop.start()
    async with staying_connected(plugin, stop, runtime, plugin.health) as client:
        if client is not None:
            await _work(app, config, plugin, client, stop)
    await loop.stop()


async def _work(app: App, config: Settings, plugin: PerdurePlugin, client: Client, stop: asyncio.Task[bool]) -> None:
    worker = new_worker(client, config)
    running = asyncio.create_task(worker.run())
    if not await before(stop, asyncio.create_task(plugin.ready.wait()), running):
        return
    if not running.done():
        gc.freeze()  # a garbage collection of all imported objects stops every task for about 90 ms
        gc.set_threshold(YOUNG)
        alone = is_of_effects(config.queue, app, config)
        what = "running effects alone, because one of them declares this task queue" if alone else "running"
        names = None if alone else ",".join(app.lifecycles)
        log_event(log, what, lifecycles=names, task_queue=config.queue, scope=config.scope)
        notify(READY)
    await asyncio.wait({running, stop}, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        return await running  # it ends by itself only after an error
    log_event(log, "stopping", grace=config.graceful_shutdown_timeout)
    notify_stopping(config.graceful_shutdown_timeout + 10)
    # The relay first: the workflows that it starts begin in this worker, which can't go on with them. But a silent
    # PostgreSQL does not put off the grace time.
    services = asyncio.create_task(plugin.stop_services())
    await asyncio.wait({services}, timeout=LAST_ROUND)
    await asyncio.wait(
        {services, asyncio.create_task(worker.shutdown()), running},
        timeout=config.graceful_shutdown_timeout + REPORTING + 2,
    )
    log_event(log, "stopped" if running.done() else "stopped without an answer from Temporal or PostgreSQL")
    running.cancel()  # if Temporal gives no answer, so that the app's lifespan ends
    await asyncio.wait({running}, timeout=2)


def new_worker(client: Client, config: Settings) -> Worker:
    """A Temporal worker with Perdure's options. The plugin comes with the client."""
    worker = Worker(
        client,
        task_queue=config.queue,
        max_cached_workflows=config.max_cached_workflows,
        max_concurrent_activities=config.max_concurrent_effects,
        max_concurrent_local_activities=2 * config.max_concurrent_effects + 100,  # the bookkeeping needs slots too
        max_concurrent_workflow_tasks=WORKFLOW_TASKS,
        workflow_task_poller_behavior=POLLERS,
        activity_task_poller_behavior=EFFECT_POLLERS,
        nonsticky_to_sticky_poll_ratio=0.6,
        sticky_queue_schedule_to_start_timeout=STICKY,
        graceful_shutdown_timeout=timedelta(seconds=config.graceful_shutdown_timeout + REPORTING),
        deployment_config=_versioned(config.deployment) if config.deployment else None,
    )
    return renewed(worker)


def _versioned(deployment: str) -> WorkerDeploymentConfig:
    """The options of a versioned worker. The default behaviour is set here, because on a class it would make
    unversioned workers reject every task."""
    name, build, *auto = deployment.split(":")
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name=name, build_id=build),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE if auto else VersioningBehavior.PINNED,
    )


def new_identity() -> str:
    """An identity that is unique for each start of a worker."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


def stop_at_once() -> None:
    """Let signals end the process at once, until the worker runs. As process 1 it would ignore them otherwise."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: leave(0))


def stop_when_stdin_ends() -> None:
    """Send this process SIGTERM when standard input ends, because its parent is gone then."""

    def watch() -> None:
        while sys.stdin.buffer.read(1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def leave(status: int) -> NoReturn:
    """End the process now, when all work is done: an interpreter that tears down native threads can abort (134), and a
    hung thread would keep the process alive. Output that can't be written is no success."""
    logging.shutdown()
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None where the caller has closed it
        try:
            stream.flush()
        except OSError as error:
            status = status or 1
            if stream is sys.stdout and sys.stderr is not None and error.errno != errno.EPIPE:
                sys.stderr.write(f"perdure: the output can't be written: {error.strerror}\n")
    os._exit(status)


def stop_requested() -> asyncio.Task[bool]:
    """A task that is done once SIGTERM or SIGINT has come."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return asyncio.create_task(stop.wait())


async def before(stop: asyncio.Task[bool], *starting: asyncio.Task[Any]) -> bool:
    """Wait for the first of `starting`. If the worker is stopped before, cancel them and return False."""
    await asyncio.wait({stop, *starting}, return_when=asyncio.FIRST_COMPLETED)
    if not stop.done():
        return True
    # asyncpg leaves a failed future behind if it is cancelled while it connects.
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    for task in starting:
        task.cancel()
    await asyncio.wait(starting, timeout=2)
    log_event(log, "stopped before it ran")
    return False
