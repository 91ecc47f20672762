"""How the tests' effects are done and looked up: they talk to the counterparty whose port is COUNTERPARTY_PORT."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from perdure import Attempt, LookupContext, NotDone, Refused
from perdure.contracts.attempt import boot_clock
from tests.apps.contracts import Booking, Ticket


async def _talk(request: dict[str, Any], just_before: Callable[[], None] | None = None) -> dict[str, Any]:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["COUNTERPARTY_PORT"]))
    except ConnectionRefusedError as error:
        raise NotDone("connection refused") from error
    try:
        if just_before is not None:
            just_before()
        writer.write(json.dumps(request).encode() + b"\n")
        await writer.drain()
        reply = json.loads(await reader.readline() or b'{"closed": true}')
    finally:
        writer.close()
    with suppress(OSError):
        await writer.wait_closed()  # as real clients do: the reply is there, and its receipt a few steps away
    if reply.get("closed"):
        raise ConnectionResetError("the counterparty closed the connection")
    return dict(reply)


def _stand_still(place: str) -> None:
    """Where STAND_STILL names this place: stop once, event loop and all, until the pipe STAND_STILL_AT is written."""
    if os.environ.get("STAND_STILL") == place:
        pipe = Path(os.environ["STAND_STILL_AT"])
        pipe.with_suffix(".reached").touch()
        pipe.read_bytes()
        del os.environ["STAND_STILL"]


async def do_booking(booking: Booking, attempt: Attempt) -> Ticket:
    """Ask the counterparty to do it."""

    def just_before() -> None:
        _stand_still("before the check")
        attempt.before_first_byte()
        request["left"] = boot_clock()
        _stand_still("after the check")

    request: dict[str, Any] = {"op": "do", "key": attempt.key, "attempt": attempt.number, "pid": os.getpid()}
    request["began"] = time.time()
    request |= attempt.headers
    reply = await _talk(request, just_before)
    if reply.get("refused"):
        raise Refused(reply["refused"])
    if reply.get("not_done"):
        pause = timedelta(seconds=reply.get("retry_after", 0)) or None
        raise NotDone(reply["not_done"], retry_after=pause, counts=reply.get("counts", True))
    return Ticket(number=reply["number"])


async def find_booking(booking: Booking, question: LookupContext) -> Ticket | None:
    """Ask the counterparty whether it was done."""
    reply = await _talk({"op": "ask", "key": question.key})
    return Ticket(number=reply["number"]) if reply["found"] else None


def bound(effects: dict[str, Any]) -> list[Any]:
    """The same two bodies for every policy."""

    def copies(effect: Any) -> Any:
        async def body(booking: Booking, attempt: Attempt) -> Ticket:
            return await do_booking(booking, attempt)

        return effect.performs(body)

    async def finds(booking: Booking, question: LookupContext) -> Ticket | None:
        return await find_booking(booking, question)

    return [copies(effect) for effect in effects.values()] + [effects["lookup"].lookup.answers(finds)]
