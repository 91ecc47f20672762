"""`perdure worker --processes`: each works, one that is killed is replaced, and all end with the first."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import psutil
import pytest

from perdure._worker.child import Child
from perdure._worker.processes import merged
from perdure.logs import FIELDS
from perdure.servers.ports import free_port
from tests.apps.watched import app
from tests.deadline import in_time
from tests.keeping import kept
from tests.world import World

pytestmark = pytest.mark.world(app)


class Fleet:
    """A `perdure worker --processes 2`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.text = ""
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.text += line.decode()

    def workers(self) -> list[psutil.Process]:
        """Its worker processes."""
        return psutil.Process(self.process.pid).children()

    async def status(self) -> int:
        """Its exit status, when all of its output is read."""
        await in_time(self._reader)
        return await in_time(self.process.wait())


@asynccontextmanager
async def fleet(world: World, path: str = "tests.apps.watched:app", **environment: str) -> AsyncIterator[Fleet]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "perdure.cli", "worker", path, "--processes", "2"),
        env={**world.environment(), **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield Fleet(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def run(world: World, *names: str) -> None:
    for name in names:
        async with world.db.transaction():
            await world.client.start("where", name, "time", connection=world.db)
    for name in names:
        assert await world.ended("where", name) in ("inside", "outside")


async def both_run(world: World, of: Fleet, times: int = 2) -> None:
    await world.until(lambda: of.text.count("worker: running") == times, "both run")


async def test_a_process_that_was_killed_is_replaced_and_sigterm_ends_all_in_order(world: World) -> None:
    async with fleet(world) as made:
        await both_run(world, made)
        workers = made.workers()
        assert len(workers) == 2
        workers[0].kill()
        await run(world, *map(str, range(20)))
        await both_run(world, made, 3)
        assert "a process ended; it is replaced | process=worker-1 status=-9" in made.text
        last = made.workers()
        made.process.send_signal(signal.SIGTERM)
        assert await made.status() == 0
        assert made.text.count("worker: stopped") == 2
        assert not [each for each in last if each.is_running()]


async def test_the_processes_end_with_the_first_one_also_when_it_is_killed(world: World) -> None:
    async with fleet(world) as made:
        await both_run(world, made)
        workers = made.workers()
        made.process.kill()
        await world.until(lambda: not any(each.is_running() for each in workers), "the end of both")


async def test_one_port_has_the_metrics_of_all(world: World) -> None:
    port = free_port()
    async with fleet(world, PERDURE_METRICS=f"prometheus:127.0.0.1:{port}") as made, aiohttp.ClientSession() as http:
        await both_run(world, made)
        await run(world, "1")
        async with http.get(f"http://127.0.0.1:{port}/metrics") as answer:
            text = await answer.text()
    families = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    assert families
    assert len(families) == len(set(families))
    assert set(re.findall(r'process="(\d)"', text)) == {"1", "2"}
    assert all("process=" in line for line in text.splitlines() if not line.startswith("#"))


async def test_a_process_that_cannot_start_is_reported_and_not_tried_for_ever(world: World) -> None:
    async with fleet(world, TEMPORAL_ADDRESS="127.0.0.1:1") as made:
        assert await made.status() == 1
        assert "PERDURE-3201" in made.text


async def test_a_process_that_ends_before_it_is_ready_has_failed_at_first_however_long_that_took() -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    one = Child("one", [sys.executable, "-c", "raise SystemExit(1)"], {}, until_ready=never)
    async with kept(one):
        await in_time(one.failed_at_first.wait())


async def test_a_process_that_ends_once_it_was_ready_has_not_failed_at_first(tmp_path: Path) -> None:
    may_end, started_again = tmp_path / "may end", asyncio.Event()
    os.mkfifo(may_end)

    def changed() -> None:
        if one.state == "running":
            may_end.write_text("now")
        if one.starts == 2:
            started_again.set()

    fails = f"open({str(may_end)!r}).read(); raise SystemExit(1)"
    one = Child("one", [sys.executable, "-c", fails], {}, changed=changed)
    async with kept(one):
        await in_time(started_again.wait())
        assert (one.first_status, one.failed_at_first.is_set()) == (1, False)


async def test_sigterm_while_the_app_is_imported_ends_it_with_0(world: World, tmp_path: Path) -> None:
    (tmp_path / "waiting.py").write_text("import signal\nprint('imported', flush=True)\nsignal.pause()\n")
    path = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
    async with fleet(world, "waiting:app", PYTHONPATH=path) as made:
        await world.until(lambda: "imported" in made.text, "the import")
        made.process.send_signal(signal.SIGTERM)
        assert await made.status() == 0


async def test_an_app_that_is_not_there_is_named_once(world: World) -> None:
    async with fleet(world, "tests.apps.nowhere:app") as made:
        assert await made.status() == 2
        assert made.text.count("PERDURE-1101") == 1


async def test_a_port_that_is_taken_is_named(world: World) -> None:
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    where = f"prometheus:127.0.0.1:{taken.sockets[0].getsockname()[1]}"
    async with taken, fleet(world, PERDURE_METRICS=where) as made:
        assert await made.status() == 2
        assert f"PERDURE_METRICS='{where}'" in made.text


def test_metrics_without_labels_get_one() -> None:
    assert merged({"1": "# HELP a b\n# TYPE a gauge\na 1\n", "2": ""}) == (
        '# HELP a b\n# TYPE a gauge\na{process="1"} 1\n'
    )


async def test_a_program_that_the_system_refuses_to_run_is_named_and_has_failed_at_first(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path / "python"
    program.write_text("")  # nobody may execute it
    one = Child("one", [str(program)], {})
    async with kept(one):
        await in_time(one.failed_at_first.wait())
        [record] = caplog.records
    assert record.message == "a process can't be started"
    fields = getattr(record, FIELDS)
    assert (fields["error"], fields["file"]) == ("PermissionError: Permission denied", str(program))
