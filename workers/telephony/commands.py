"""`perdure telephony`: the commands that applications with telephony add to `perdure`."""

from __future__ import annotations

from typing import Annotated

import typer

from workers.receiving import receive_at
from workers.telephony.callbacks import receive

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
    """Receive the provider's status callbacks about messages and calls, until SIGTERM.

    The workers pass its address, PERDURE_TELEPHONY_CALLBACK_URL, to the provider.
    """
    receive_at(listen, receive, "127.0.0.1:8088")
