"""A real HTTP server for tests: the answers of each path are given beforehand, and each request is on record."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Reply = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass
class Pages:
    """Attributes:
    port: where it listens on 127.0.0.1.
    replies: what a path answers: a queue of functions; the last one stays. Without any, 200 and `{}`.
    asked: every request that came in whole.
    """

    port: int = 0
    replies: dict[str, list[Reply]] = field(default_factory=lambda: defaultdict(list))
    asked: list[Asked] = field(default_factory=list)

    @property
    def origin(self) -> str:
        """`http://127.0.0.1:port`."""
        return f"http://127.0.0.1:{self.port}"

    def keys(self, path: str) -> Counter[str]:
        """How often each Idempotency-Key came to `path`."""
        return Counter(each.headers.get("idempotency-key", "") for each in self.asked if each.path == path)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Pages]:
        """Serve for as long as the context lasts."""
        runner = web.ServerRunner(web.Server(self._handle), handle_signals=False, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port)
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _handle(self, request: Any) -> web.StreamResponse:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.asked.append(Asked(request.method, request.path, dict(request.query), headers, body))
        waiting = self.replies.get(request.path, [])
        reply = waiting.pop(0) if len(waiting) > 1 else (waiting[0] if waiting else answers({}))
        return await reply(request)


def answers(body: Any = None, status: int = 200, **headers: str) -> Reply:
    """A reply of JSON."""

    async def reply(_: web.Request) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.json_response(body, status=status, headers=named)

    return reply


def closes() -> Reply:
    """Closes the connection in place of a reply."""

    async def reply(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return reply


def waits_for(event: asyncio.Event, then: Reply) -> Reply:
    """Holds its reply until `event` is set."""

    async def reply(request: web.Request) -> web.StreamResponse:
        await event.wait()
        return await then(request)

    return reply
