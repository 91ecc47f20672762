"""`perdure job-type callbacks`: the process that pages call back."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from perdure.command.printing import refuse
from perdure.fleet.worker import stop_at_once
from perdure.logs import set_up
from perdure.settings import settings
from workers.callbacks import receive
from workers.job_types.group import commands


@commands.command(epilog="Example: perdure job-type callbacks --listen 127.0.0.1:8086")
def callbacks(
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="where; behind your proxy, which speaks TLS")],
) -> None:
    """Receive what pages say by their callbacks, until SIGTERM: `POST /<token>`.

    Pages are told of it by PERDURE_WEB_CALLBACK_URL, which the workers have.
    """
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        refuse(f"--listen: {listen!r} is not HOST:PORT, as 127.0.0.1:8086", 2)
    stop_at_once()
    config = settings()
    set_up(config.log, config.log_level)
    try:
        asyncio.run(receive(config, host.strip("[]"), int(port)))
    except OSError as error:
        refuse(f"can't listen at {listen}: {error.strerror or error}", 1)
