"""Looks up names in threads of its own, each name once at a time, so that a DNS that does not answer delays no other
code."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

from aiohttp.abc import AbstractResolver, ResolveResult

_THREADS = 8


class Names(AbstractResolver):
    """The system's own resolver, as `getaddrinfo` has it: with hosts file, search domains, and so on."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="perdure-names")
        self._asked: dict[tuple[str, int, int], asyncio.Future[list[ResolveResult]]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of `host`. Concurrent callers share one look-up.

        Raises:
            OSError: the name has no address, or no server answers.
        """
        key = (host, port, family)
        asking = self._asked.get(key)
        if asking is None:
            asking = asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host, port, family)
            self._asked[key] = asking
            asking.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(asking)

    def _forget(self, key: tuple[str, int, int], done: asyncio.Future[list[ResolveResult]]) -> None:
        self._asked.pop(key, None)
        if not done.cancelled():
            done.exception()  # read it even if no caller waits any more

    async def close(self) -> None:
        """Wait for nothing: a thread that hangs is left to end by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int, family: int) -> list[ResolveResult]:
    found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [
        ResolveResult(hostname=host, host=str(address[0]), port=port, family=kind, proto=proto, flags=0)
        for kind, _, proto, _, address in found
    ]
