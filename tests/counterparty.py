"""The other side of the tests' effects: a real TCP server that counts what it was asked to do, by key.

Requests and replies are lines of JSON. What it does with a request is ordered beforehand: hold it before it is
accepted, accept it and hold the reply, answer no, close the connection. It can be asked what it has accepted.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.deadline import in_time


class Counterparty:
    """Counts and obeys orders; see the module.

    Attributes:
        port: where it listens on 127.0.0.1.
        accepted: how often each key was accepted.
        asked: how often each key was looked up.
        requests: every request, in order of arrival.
        steps: how often each step of a march was made.
        takes: seconds, from and to, that it takes for each act before it replies.
    """

    def __init__(self) -> None:
        self.port = 0
        self.accepted: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.steps: Counter[int] = Counter()
        self.requests: list[dict[str, Any]] = []
        """Each with the time at which it came, `at`, on the event loop's clock."""
        self.takes = 0.0, 0.0
        self.before_accepting = Gate()
        self.before_replying = Gate()
        self.before_answering = Gate()
        self.replies: list[dict[str, Any]] = []
        """Replies to give to the next requests in place of `{"ok": true}`; `accept` = whether they count."""
        self.replies_to: dict[str, list[dict[str, Any]]] = {}
        """The same for one entity, by its id."""
        self.dedupe = False
        self.mute = False
        """Whether it closes the connection when it is asked."""
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Counterparty]:
        """Listen for as long as the context lasts."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            for gate in (self.before_accepting, self.before_replying, self.before_answering):
                gate.open()
            server.close()

    async def saw(self, what: str, key_part: str = "", count: int = 1) -> None:
        """Wait until `count` requests of kind `what` (`do`, `ask`) came whose key contains `key_part`."""
        async with self._changed:
            await in_time(self._changed.wait_for(lambda: self.seen(what, key_part) >= count))

    async def has_accepted(self, count: int = 1) -> None:
        """Wait until it has accepted `count` requests altogether."""
        async with self._changed:
            await in_time(self._changed.wait_for(lambda: self.accepted.total() >= count))

    async def has_made(self, steps: int) -> None:
        """Wait until so many different steps of a march were made."""
        async with self._changed:
            await in_time(self._changed.wait_for(lambda: len(self.steps) >= steps))

    def seen(self, what: str, key_part: str = "") -> int:
        """How many requests of kind `what` came."""
        return sum(each["op"] == what and key_part in each["key"] for each in self.requests)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ways = {"do": self._do, "ask": self._ask, "step": self._step}
        try:
            while line := await reader.readline():
                request = {**json.loads(line), "at": asyncio.get_running_loop().time()}
                await self._note(lambda request=request: self.requests.append(request))
                reply = await ways[request["op"]](request)
                if reply.get("close"):
                    return
                writer.write(json.dumps(reply).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, json.JSONDecodeError):
            pass  # the worker was killed: that is what the tests are about
        finally:
            writer.close()

    async def _step(self, request: dict[str, Any]) -> dict[str, Any]:
        await self._note(lambda: self.steps.update([request["step"]]))
        await self._reply_in_its_time()
        return {"again": self.steps.total() - len(self.steps)}

    async def _do(self, request: dict[str, Any]) -> dict[str, Any]:
        await self.before_accepting.passed()
        key = request["key"]
        replies = self.replies_to.get(key.split("/")[1]) or self.replies
        reply = replies.pop(0) if replies else {"ok": True, "accept": True}
        if reply.get("accept") and not (self.dedupe and self.accepted[key]):
            await self._note(lambda: self.accepted.update([key]))
        await self._reply_in_its_time()
        return {**reply, "number": self.accepted.total()}

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        await self._note(lambda: self.asked.update([request["key"]]))
        await self.before_answering.passed()
        if self.mute:
            return {"close": True}
        return {"found": bool(self.accepted[request["key"]]), "number": self.accepted[request["key"]]}

    async def _reply_in_its_time(self) -> None:
        await asyncio.sleep(random.uniform(*self.takes))
        await self.before_replying.passed()

    async def _note(self, change: Any) -> None:
        async with self._changed:
            change()
            self._changed.notify_all()


class Gate:
    """Lets everybody pass, until it is shut."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self.waiting = 0

    def shut(self) -> None:
        """Hold whoever comes."""
        self._open.clear()

    def open(self) -> None:
        """Let everybody pass."""
        self._open.set()

    async def passed(self) -> None:
        """Wait until it is open."""
        self.waiting += 1
        try:
            await self._open.wait()
        finally:
            self.waiting -= 1
