"""The pages of docs/start are programs: their files are written to a folder, their commands run there, and a worker
brings to its end what they committed.

A block after `<!-- file: NAME -->` is a file, one after `<!-- runs -->` holds commands. A page is left out, with the
reason, where the machine has not got its language.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import App
from tests.deadline import DEADLINE
from tests.world import World

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs/start"
OVERVIEW = PAGES / "README.md"
PROGRAMS = {"psql": "psql", "node": "npm", "go": "go"}
_FILE = re.compile(r"^<!-- file: (\S+) -->\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RUNS = re.compile(r"^<!-- runs -->\n```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMES = [page.stem for page in sorted(PAGES.glob("*.md")) if page != OVERVIEW and page.stem != "temporal"]


def _write_files(page: Path, folder: Path) -> None:
    for name, text in _FILE.findall(page.read_text()):
        (folder / name).write_text(text)


async def _run(page: Path, folder: Path, dsn: str) -> str:
    """What the page's commands write."""
    lines = "".join(_RUNS.findall(page.read_text())).splitlines()
    commands = "\n".join(line.removeprefix("$ ") for line in lines)
    environment = {
        **os.environ,
        "DATABASE_URL": dsn,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "error",
    }
    process = await asyncio.create_subprocess_exec(
        *("bash", "-euo", "pipefail", "-c", commands),
        cwd=folder,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), 4 * DEADLINE)  # some compile first
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, said.decode()
    return said.decode()


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    """The app of the worker that all pages share, as the first page has it."""
    _write_files(OVERVIEW, tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("lifecycles").app
    for name in ("lifecycles", "contracts"):
        del sys.modules[name]


@pytest.mark.parametrize("name", NAMES)
async def test_what_the_page_commits_comes_to_its_end_and_what_it_rolls_back_never_was(
    name: str, world: World, shop: App, tmp_path: Path
) -> None:
    program = PROGRAMS.get(name)
    if program is not None and shutil.which(program) is None:
        pytest.skip(f"no {program} on PATH: docs/start/{name}.md was not run")
    await world.db.execute((tmp_path / "orders.sql").read_text())
    _write_files(PAGES / f"{name}.md", tmp_path)

    said = await _run(PAGES / f"{name}.md", tmp_path, world.dsn)

    assert "sent" in said
    # Django and FastAPI answer with the app's own row, the others with what perdure has on record.
    assert ("state: pending" if name in ("django", "fastapi") else "starting") in said
    committed = {"book": "paid", "lamp": "cancelled"} if name == "psql" else {"book": "paid"}
    rows = {row["item"]: str(row["id"]) for row in await world.db.fetch("select id, item from orders")}
    assert set(rows) == set(committed)
    assert {row["id"] for row in await world.db.fetch("select id from perdure.ident")} == set(rows.values())
    async with world.worker(shop):
        ends = {item: await world.ended("order", number) for item, number in rows.items()}
        await world.until(lambda: _shown(world, committed), "the app's rows show it")
    assert ends == committed


async def _shown(world: World, ends: dict[str, str]) -> bool:
    return {row["item"]: row["state"] for row in await world.db.fetch("select item, state from orders")} == ends
