"""`perdure worker`, `perdure relay`: what runs until it is told to stop."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from perdure.command.cli import cli
from perdure.fleet.relaying import run_relay
from perdure.fleet.worker import load_app, run_worker, stop_at_once
from perdure.logs import set_up
from perdure.settings import settings


@cli.command(epilog="Example: perdure worker workers.app:app")
def worker(app: Annotated[str, typer.Argument(help="the App to run, as package.module:name")]) -> None:
    """Run a worker for an app, until SIGTERM."""
    stop_at_once()
    config = settings()
    set_up(config.log, config.log_level)
    asyncio.run(run_worker(load_app(app), config))


@cli.command(epilog="Example: perdure relay workers.app:app")
def relay(
    app: Annotated[str, typer.Argument(help="the App to start, as package.module:name")],
) -> None:
    """Run the relay alone, until SIGTERM, where the workers run without (PERDURE_RELAY=false)."""
    stop_at_once()
    config = settings()
    set_up(config.log, config.log_level)
    asyncio.run(run_relay(load_app(app), config))
