"""The outside server: charges cards, and records each charge with its time, key and order.

`python -m bench.peers.other_side PORT` serves until SIGTERM. The bench chooses what the server can do (`PUT /rules`),
and holds whoever reaches a place (`PUT /hold`).
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import asdict, dataclass

from aiohttp import web


@dataclass(frozen=True, slots=True)
class Charge:
    """One charge, as the server recorded it."""

    id: str
    order: int
    key: str
    at: float


class OtherSide:
    """The server's memory and rules.

    Attributes:
        window: seconds for which a key is remembered; None = for ever, 0 = keys mean nothing.
        lag: seconds after which a charge can be looked up; None = there is no look-up.
        waiting: how many are held.
    """

    def __init__(self) -> None:
        self.window: float | None = None
        self.lag: float | None = None
        self.charges: list[Charge] = []
        self._held: str | None = None
        self.waiting = 0
        self._released = asyncio.Event()

    def application(self) -> web.Application:
        """Its routes."""
        made = web.Application()
        made.router.add_post("/charges", self._charge)
        made.router.add_get("/charges/{order}", self._find)
        made.router.add_post("/at/{place}", self._at)
        made.router.add_put("/rules", self._rules)
        made.router.add_put("/hold", self._hold)
        made.router.add_get("/record", self._record)
        return made

    def hold(self, place: str | None) -> None:
        """Release whoever is held, and hold whoever reaches `place` from now on; None = nobody."""
        self._released.set()
        self._held, self.waiting, self._released = place, 0, asyncio.Event()

    async def _charge(self, request: web.Request) -> web.Response:
        order, key = (await request.json())["order"], request.headers["Idempotency-Key"]
        charge = self._remembered(key)
        if charge is None:
            charge = Charge(f"charge-{len(self.charges)}", order, key, time.time())
            self.charges.append(charge)
        await self._pass("reply-held")
        return web.json_response({"id": charge.id})

    def _remembered(self, key: str) -> Charge | None:
        since = 0.0 if self.window is None else time.time() - self.window
        return next((each for each in self.charges if each.key == key and each.at > since), None)

    async def _find(self, request: web.Request) -> web.Response:
        order = int(request.match_info["order"])
        if self.lag is not None:
            before = time.time() - self.lag
            for each in self.charges:
                if each.order == order and each.at <= before:
                    return web.json_response({"id": each.id})
        raise web.HTTPNotFound

    async def _at(self, request: web.Request) -> web.Response:
        await self._pass(request.match_info["place"])
        return web.json_response({})

    async def _pass(self, place: str) -> None:
        if place == self._held:
            self.waiting += 1
            await self._released.wait()

    async def _rules(self, request: web.Request) -> web.Response:
        rules = await request.json()
        self.window, self.lag = rules["window"], rules["lag"]
        return web.json_response({})

    async def _hold(self, request: web.Request) -> web.Response:
        self.hold((await request.json())["place"])
        return web.json_response({})

    async def _record(self, request: web.Request) -> web.Response:
        return web.json_response({"waiting": self.waiting, "charges": [asdict(each) for each in self.charges]})


async def serve(port: int, side: OtherSide | None = None) -> web.AppRunner:
    """Listen on 127.0.0.1, for `side` or a new one."""
    runner = web.AppRunner((side or OtherSide()).application(), access_log=None, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return runner


async def _main() -> None:
    await serve(int(sys.argv[1]))
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main())
