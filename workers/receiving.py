"""The commands that receive callbacks: where they listen, how they end, and what they say where they can't."""

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
    """Receive until SIGTERM at `listen`, HOST:PORT such as `example`; what stops it is said in one line."""
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
    """Until it listens there is nothing to bring to an end. As process 1 it would not even notice the signal."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
