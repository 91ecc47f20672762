"""`make demo-jobs`, with fewer children, keeps its word: counted at the pages, nothing lost, nothing twice."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import psutil

from infra.job_pages import FILES, missing

ROOT = Path(__file__).parents[2]


async def test_the_demo_of_jobs_loses_nothing_does_nothing_twice_and_leaves_nothing_running() -> None:
    counts = ROOT / "build" / "demo-jobs.json"
    counts.unlink(missing_ok=True)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "infra.demo_jobs", "--children", "30"),
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
    del counted["seconds"]
    assert counted.pop("dropped") > 0, "nothing was called again: the kills hit nothing that was under way"
    assert counted == {
        "children": 30,
        "done": 29,
        "failed": 1,
        "lost": 0,
        "twice": 0,
        "master": "complete",
        "languages": sum(missing(language) is None for language in FILES),
        "workers_killed": 1,
        "pages_killed": 1,
    }
    assert len(started) >= 7
    assert [each.pid for each in started if each.is_running() and each.status() != psutil.STATUS_ZOMBIE] == []
