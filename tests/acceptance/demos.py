"""Runs a demo as its make target does, and sees to it that it leaves nothing running."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import psutil

from infra.browsing import Browser
from tests.deadline import until

ROOT = Path(__file__).parents[2]


_STAYS = re.compile(r"Everything stays up until Ctrl-C.*(http://127\.0\.0\.1:\d+/)")


async def played(
    module: str,
    *arguments: str,
    counts: str,
    processes: int,
    visited: Callable[[str], Awaitable[None]] | None = None,
) -> dict[str, Any]:
    """What it has counted, in `build/<counts>`; it started so many processes at least, and ended them all.

    Args:
        visited: the demo is to stay up; it is given the address of the console, and ended after that.
    """
    file = ROOT / "build" / counts
    file.unlink(missing_ok=True)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments, *([] if visited is None else ["--keep"])),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    started: set[psutil.Process] = set()
    said = b""
    assert process.stdout is not None
    try:
        async for line in process.stdout:  # each line is a moment at which to look who is there
            said += line
            if psutil.pid_exists(process.pid):
                started |= set(psutil.Process(process.pid).children(recursive=True))
            if visited is not None and (stays := _STAYS.search(line.decode())):
                await visited(stays[1])
                process.send_signal(signal.SIGINT)
        assert await process.wait() == (0 if visited is None else 130)
    finally:
        print(said.decode())
        if process.returncode is None:
            process.kill()
            await process.communicate()
    assert len(started) >= processes
    # Some look once a second whether they are still needed.
    await until(lambda: not any(map(_runs, started)), "the end of all that it had started")
    counted: dict[str, Any] = json.loads(file.read_text())
    return counted


async def settled_as_not_done(console: str, group: str, note: str) -> Browser:
    """Answer for one doubt of a group in the inbox of a demo's console, as a visitor does; the page after that."""

    def answer() -> Browser | None:
        browser = Browser(f"{console}inbox")
        assert group in browser.words
        for words in ("Settle", "Settle…", "not done"):
            browser.choose(words)
        browser.fill_in("Note", note)
        try:
            browser.choose("Settle")
        except HTTPError as refused:  # the page names a time, after which it accepts that
            if "may be under way until" in refused.read().decode():
                return None
            raise
        return browser

    settled: Browser = await until(lambda: asyncio.to_thread(answer), "no attempt under way", every=1)
    return settled


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:  # it has ended between the two
        return False
