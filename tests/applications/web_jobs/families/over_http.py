"""What the played pages answer, given by a real HTTP server to the real client: are they the same?"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Network
from typing import Any
from unittest.mock import patch

from aiohttp import web

from activities.http.exchange import Bounds, Broken, Exchange, Reply
from activities.http.names import Names
from perdure.testing.exploring.workers import current_worker
from tests.applications.web_jobs.families.pages import Played

_MOST = 4_000
"""Bytes of an answer that are read."""


class Server:
    """A real server in a thread of its own, that gives the answers which it was told to give.

    Attributes:
        answers: what was played, by number; None = the connection is closed.
        origin: `http://127.0.0.1:port`.
    """

    def __init__(self) -> None:
        self.answers: list[Reply | None] = []
        self.origin = ""
        self._loop = asyncio.new_event_loop()
        self._serves, self._stop = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    def __enter__(self) -> Server:
        self._thread.start()
        self._serves.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{number}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self._serves.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        played = self.answers[int(request.match_info["number"])]
        if played is None:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        headers = dict(played.headers)
        if played.next is not None:
            headers["Link"] = f'<{played.next}>; rel="next"'
        body = b"[" + b"0," * _MOST + b"0]" if played.too_long else played.body
        return web.Response(status=played.status, headers=headers, body=body)


@contextmanager
def real_answers(server: Server) -> Iterator[None]:
    """Have each answer of a played page come by HTTP."""
    plain = Played.make

    async def make(self: Played) -> Reply:
        try:
            played: Reply | None = await plain(self)
        except Broken as broken:
            if not broken.left or "too long" in broken.why:
                raise
            played = None
        return await _real(server, self, played)

    with patch.object(Played, "make", make):
        yield


async def _real(server: Server, exchange: Played, played: Reply | None) -> Reply:
    number = len(server.answers)
    server.answers.append(played)
    given = exchange.request
    request = type(given)(given.method, f"{server.origin}/{number}", given.headers, given.body)
    world: Any = current_worker.get().world
    names, bounds = Names(), Bounds(networks=(IPv4Network("127.0.0.0/8"),), most=_MOST)
    world.loop.external += 1
    try:
        return await Exchange(request, names, seconds=60, bounds=bounds).make()
    finally:
        world.loop.external -= 1
        await names.close()
