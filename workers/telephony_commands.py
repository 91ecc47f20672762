"""`perdure telephony`: the commands that applications with telephony add to `perdure`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from perdure.command.printing import refuse
from perdure.errors import InvalidSetting
from perdure.fleet.worker import stop_at_once
from perdure.logs import set_up
from perdure.settings import settings
from workers.telephony_callbacks import receive

commands = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Text messages and voice calls.",
)


@commands.callback()
def telephony() -> None:
    """Text messages and voice calls."""


@commands.command(epilog="Example: perdure telephony callbacks --listen 127.0.0.1:8088")
def callbacks(
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="where; behind your proxy, which speaks TLS")],
) -> None:
    """Receive what became of messages and calls, until SIGTERM: the provider's status callbacks.

    The provider is told of it by PERDURE_TELEPHONY_CALLBACK_URL, which the workers have.
    """
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        refuse(f"--listen: {listen!r} is not HOST:PORT, as 127.0.0.1:8088", 2)
    stop_at_once()
    config = settings()
    set_up(config.log, config.log_level)
    try:
        asyncio.run(receive(config, host.strip("[]"), int(port)))
    except InvalidSetting as error:
        refuse(str(error), 2)
    except OSError as error:
        refuse(f"can't listen at {listen}: {error.strerror or error}", 1)
