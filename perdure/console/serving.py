"""Serves the console in a process of its own, until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable

import uvicorn
from starlette.types import ASGIApp

from perdure.console.app import Console
from perdure.console.connections import Connection
from perdure.errors import InvalidSetting
from perdure.logs import log_event

log: logging.Logger = logging.getLogger("perdure.console")

_GRACE = 3


async def serve(
    served: Console, listening: socket.socket, stop: Awaitable[object], *, app: ASGIApp | None = None
) -> None:
    """Serve on a socket until `stop`.

    Args:
        app: in which it is mounted; None = it is served itself.
    """
    config = uvicorn.Config(
        app or served,
        log_config=None,
        access_log=False,  # an address may name an entity
        proxy_headers=False,  # the sender of a request is the peer, never the content of a header
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=_GRACE,
        http=Connection,
        ws="none",
        h11_max_incomplete_event_size=32 * 1024,
    )
    server = uvicorn.Server(config)
    with listening:
        async with served.opened():
            running = asyncio.create_task(server._serve([listening]))  # `serve` takes the signals of the process
            log_event(log, "running", url=address(listening))
            stopping = asyncio.ensure_future(stop)
            await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
            server.should_exit = True
            await served.live.close()
            await running
    log_event(log, "stopped")


def listen(host: str, port: int) -> socket.socket:
    """A socket that browsers can reach.

    Args:
        port: 0 = any that is free.

    Raises:
        InvalidSetting: it can't listen there.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise InvalidSetting(f"it can't listen on {host}, port {port}: {error.strerror}") from error
    return listening


def address(listening: socket.socket) -> str:
    """What browsers are given."""
    host, port, *_ = listening.getsockname()
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
