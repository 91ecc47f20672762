"""Runs a demo as its make target does, and sees to it that it leaves nothing running."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import psutil

from tests.deadline import until

ROOT = Path(__file__).parents[2]


async def played(module: str, *arguments: str, counts: str, processes: int) -> dict[str, Any]:
    """What it has counted, in `build/<counts>`; it started so many processes at least, and ended them all."""
    file = ROOT / "build" / counts
    file.unlink(missing_ok=True)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    started: set[psutil.Process] = set()
    said = b""
    assert process.stdout is not None
    async for line in process.stdout:  # each line is a moment at which to look who is there
        said += line
        if psutil.pid_exists(process.pid):
            started |= set(psutil.Process(process.pid).children(recursive=True))
    assert await process.wait() == 0, said.decode()
    assert len(started) >= processes
    # Some look once a second whether they are still needed.
    await until(lambda: not any(map(_runs, started)), "the end of all that it had started")
    counted: dict[str, Any] = json.loads(file.read_text())
    return counted


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:  # it has ended between the two
        return False
