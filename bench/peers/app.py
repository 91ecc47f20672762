"""The application, which takes orders: `python -m bench.peers.app MODULE FIRST COUNT` calls the module's `take`."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_AT_ONCE = 20


async def _main(module: str, first: int, count: int) -> None:
    threads = ThreadPoolExecutor(_AT_ONCE)
    loop = asyncio.get_running_loop()
    loop.set_default_executor(threads)
    take, room = importlib.import_module(module).take, asyncio.Semaphore(_AT_ONCE)

    async def one(number: int) -> Any:
        async with room:
            return await (take(number) if inspect.iscoroutinefunction(take) else asyncio.to_thread(take, number))

    await asyncio.gather(*(one(number) for number in range(first, first + count)))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
