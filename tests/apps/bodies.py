"""The app of the tests' bookings, and the body of its march."""

from __future__ import annotations

import asyncio
import json
import os

from perdure import App, Attempt
from tests.apps.bookings import LIFECYCLES
from tests.apps.calls import bound
from tests.apps.contracts import INLINE, MARCH, REGULAR, March, Marched


@MARCH.performs
async def march(way: March, attempt: Attempt) -> Marched:
    """A thousand steps; each is told to the counterparty, progress to Temporal."""
    began, reply = int(attempt.progress or 0), {"again": 0}
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["COUNTERPARTY_PORT"]))
    for step in range(began, way.steps):
        writer.write(json.dumps({"op": "step", "key": attempt.key, "step": step}).encode() + b"\n")
        await writer.drain()
        reply = json.loads(await reader.readline())
        attempt.heartbeat(step + 1)
    writer.close()
    return Marched(steps=way.steps, began_at=began, again=reply["again"])


app = App(lifecycles=list(LIFECYCLES), effects=[*bound(REGULAR), *bound(INLINE), march])
