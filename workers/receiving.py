"""The shared part of the commands that receive callbacks: address, stop signals and errors."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from perdure.cli.printing import refuse
from perdure.errors import InvalidSetting
from perdure.logs import set_up
from perdure.settings import Settings, settings

Receive = Callable[[Settings, str, int], Coroutine[Any, Any, None]]


def receive_at(listen: str, receive: Receive, example: str) -> None:
    """Receive at `listen`, HOST:PORT such as `example`, until SIGTERM. An error is printed in one line."""
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        refuse(f"--listen: {listen!r} is not HOST:PORT, as {example}", 2)
    _stop_at_once()
    config = settings()
    set_up(config.log, config.log_level)
    try:
        asyncio.run(receive(config, host.strip("[]"), int(port)))
    except InvalidSetting as error:
        refuse(str(error), 2)
    except OSError as error:
        refuse(f"can't listen at {listen}: {error.strerror or error}", 1)


def _stop_at_once() -> None:
    """Let signals end the process at once until it listens. As process 1 it would ignore them otherwise."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
