"""The page of the master in `make demo-jobs`: lists the invoices of a month, as jobs of the types that there are.

The first hundred stand in its answer, the rest on further pages.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

A_PAGE = 100
WINDOW = 50
"""Children that are open at a time, at most."""
WORK = 0.5
"""Seconds that a page takes for one: whatever is killed leaves some of them in the middle."""


class Batch:
    """Its address is known while it serves.

    Args:
        invoices: how many it lists.
        types: names of job types, which take turns.
    """

    def __init__(self, invoices: int, types: Sequence[str]) -> None:
        self.numbers = range(1, invoices + 1)
        self.refused = [number for number in self.numbers if number % 30 == 0]
        """Their children lack an invoice: the page refuses them."""
        self.origin = ""
        self._types = types

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Batch]:
        """Serve on a free port of 127.0.0.1."""
        app = web.Application()
        app.add_routes([web.post("/month", self._page), web.get("/month", self._page)])
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.origin = "http://{}:{}".format(*runner.addresses[0])
            yield self
        finally:
            await runner.cleanup()

    async def _page(self, request: web.Request) -> web.Response:
        begin = int(request.query.get("from", "0"))
        children = [self._child(number) for number in self.numbers[begin : begin + A_PAGE]]
        more = begin + A_PAGE < len(self.numbers)
        headers = {"Link": f'</month?from={begin + A_PAGE}>; rel="next"'} if more else {}
        body = {"children": children, "window": min(WINDOW, len(self.numbers) // 3), "tolerates": len(self.refused)}
        return web.json_response(body, headers=headers)

    def _child(self, number: int) -> dict[str, Any]:
        what = {} if number in self.refused else {"invoice": number}
        type_ = self._types[number % len(self._types)]
        return {"id": str(number), "type": type_, "payload": {**what, "seconds": WORK}}
