"""The app's side, in a process of its own: commits rows and starts what follows, as one web process would.

`python -m bench.cost.driver MODULE:NAME TASK_QUEUE`, where the name makes a starter. Orders come as lines of JSON on
standard input; so do answers, on standard output.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from typing import Any

from bench.cost.starter import Starter

STARTING = 8
"""Starts that are under way at once."""


async def main(path: str, task_queue: str) -> None:
    """Obey until the input ends."""
    module, _, name = path.partition(":")
    async with getattr(importlib.import_module(module), name)(task_queue) as starter:
        _answer({"ready": True})
        while line := await asyncio.to_thread(sys.stdin.readline):
            order = json.loads(line)
            do, cpu = order.pop("do"), time.process_time()
            answer = await (crowd(starter, **order) if do == "crowd" else trickle(starter, **order))
            _answer({**answer, "cpu": time.process_time() - cpu})


async def crowd(starter: Starter, runs: int, in_flight: int) -> dict[str, Any]:
    """Start `runs`, at most `in_flight` open at once; the seconds until the app has seen the end of the last."""
    await starter.begin()
    room, begun, left = asyncio.Semaphore(in_flight), time.perf_counter(), runs

    async def start() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await room.acquire()
            await starter.start()

    starting = [asyncio.create_task(start()) for _ in range(STARTING)]
    seen = 0
    while seen < runs:
        await asyncio.sleep(0.02)
        now = await starter.ended()
        for _ in range(now - seen):
            room.release()
        seen = now
        for task in starting:
            if task.done():
                task.result()
    return {"seconds": time.perf_counter() - begun, "ids": starter.ids[-20:]}


async def trickle(starter: Starter, runs: int, every: float) -> dict[str, Any]:
    """Start one every `every` seconds; for each the ms from the start call until the app receives its end."""
    await starter.begin()
    begun = time.perf_counter()

    async def one(number: int) -> float:
        await asyncio.sleep(begun + number * every - time.perf_counter())
        called = time.perf_counter()
        key = await starter.start()
        await starter.end_of(key)
        return (time.perf_counter() - called) * 1000

    return {"ms": await asyncio.gather(*(one(number) for number in range(runs))), "ids": starter.ids[-20:]}


def _answer(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
