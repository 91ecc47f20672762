"""`perdure worker`, `perdure services`: processes that run until SIGTERM."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import typer

from perdure._text.privacy import describe
from perdure._worker.processes import run_processes
from perdure._worker.service_process import ServiceProcess, Task
from perdure._worker.worker import (
    leave,
    load_app,
    run_worker,
    stop_at_once,
    stop_requested,
    stop_when_stdin_ends,
)
from perdure.app import App
from perdure.cli.cli import RUN, cli
from perdure.cli.printing import exit_status
from perdure.errors import PerdureError
from perdure.logs import set_up
from perdure.settings import Settings, settings

log: logging.Logger = logging.getLogger("perdure.worker")


@cli.command(epilog="Example: perdure worker shop.app:app", rich_help_panel=RUN)
def worker(
    app: Annotated[str, typer.Argument(help="the App to run, as package.module:name or package.module")],
    processes: Annotated[int, typer.Option(min=1, max=256, help="how many worker processes; each uses one core")] = 1,
    until_stdin_ends: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Run a worker for an app, until SIGTERM."""
    if until_stdin_ends:
        stop_when_stdin_ends()
    if processes == 1:
        _run(app, run_worker)
        return
    stop_at_once()
    config = settings()
    set_up(config.log, config.log_level)
    load_app(app)  # what can't be run is refused once, and not by each process

    async def until_stopped() -> int:
        return await run_processes(app, processes, config, stop_requested())

    leave(asyncio.run(until_stopped()))


@cli.command(epilog="Example: perdure services shop.app:app relay gauges", rich_help_panel=RUN)
def services(
    app: Annotated[str, typer.Argument(help="the App to serve, as package.module:name or package.module")],
    tasks: Annotated[list[Task] | None, typer.Argument(help="which services; all of them if none is named")] = None,
) -> None:
    """Run services without a worker, until SIGTERM: for workers that run without them (PERDURE_RELAY=false, ...)."""
    _run(app, lambda found, config: ServiceProcess(found, config, tasks or list(Task)).run())


def _run(app: str, until_stopped: Callable[[App, Settings], Coroutine[Any, Any, None]]) -> None:
    stop_at_once()
    config = settings()
    set_up(config.log, config.log_level)

    async def to_the_end(found: App) -> None:
        await until_stopped(found, config)
        leave(0)  # before asyncio.run, which would wait for the thread of a body

    try:
        asyncio.run(to_the_end(load_app(app)))
    except Exception as error:
        if config.log == "text":
            raise
        # Whoever reads the lines as JSON has to find in them why it ended.
        log.critical("ended: %s", describe(error), exc_info=None if isinstance(error, PerdureError) else error)
        leave(exit_status(error))
