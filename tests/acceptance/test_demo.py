"""`make demo` keeps its word: counted at the other side, nothing lost, nothing twice, nothing left running."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]


async def test_the_demo_loses_nothing_sends_nothing_twice_and_leaves_nothing_running() -> None:
    counts = ROOT / "build" / "demo.json"
    counts.unlink(missing_ok=True)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "infra.demo"),
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

    counted = json.loads(counts.read_text())
    told = ("comments", "sent", "lost", "duplicated", "torn", "apps_killed", "workers_killed")
    assert {name: counted[name] for name in told} == {
        "comments": 60,
        "sent": 60,
        "lost": 0,
        "duplicated": 0,
        "torn": 0,
        "apps_killed": 2,
        "workers_killed": 1,
    }
    assert counted["settled_by_lookup"] > 0, "no killed attempt had been accepted: the look-up was not seen at work"
    assert len(started) >= 6
    assert [each.pid for each in started if each.is_running() and each.status() != psutil.STATUS_ZOMBIE] == []
