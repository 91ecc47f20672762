"""`--watch`: what a command shows, read again every few seconds, in place, until Ctrl-C."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, NoReturn

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from perdure._text.shown import one_line
from perdure.cli.printing import printed, refuse
from perdure.errors import PerdureError

Watch = Annotated[bool, typer.Option("--watch", help="show it again and again, in place, until Ctrl-C")]
Every = Annotated[float, typer.Option(help="with --watch: seconds between two readings", min=0.1)]

Reading = Callable[[], Callable[[], None]]
"""Reads, and returns what prints that."""


def watch(read: Reading, every: float, *, as_json: bool) -> NoReturn:
    """Show what is read, again and again. Where a reading fails, the reason is shown, and the next one is tried.

    Leaves with 2 where there is no terminal, and with 130 on Ctrl-C.
    """
    console = Console()
    if as_json or not console.is_terminal:
        refuse(f"--watch is for a terminal, and for a person: leave out {'--json' if as_json else '--watch'}", 2)
    # With the usual handler each reading's event loop turns Ctrl-C into a cancellation, which a reading may swallow.
    signal.signal(signal.SIGINT, _interrupt)
    logging.disable(logging.WARNING)  # a line of the log would stand amid the screen, which has the reason anyway
    with Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            live.update(Group(_head(every), _screen(read, console)), refresh=True)
            time.sleep(every)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _screen(read: Reading, console: Console) -> Text:
    try:
        return printed(read(), console)
    except PerdureError as error:
        return Text(f"perdure: {one_line(error)}")


def _head(every: float) -> Text:
    return Text(f"{datetime.now().astimezone():%H:%M:%S}, every {every:g} s; Ctrl-C ends it\n", style="dim")
