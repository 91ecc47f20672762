"""A command beside the servers of development is stopped, also if it does not end by itself."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from perdure._dev import processes
from perdure._dev.processes import Supervised
from tests.deadline import until

STUBBORN = (
    "import pathlib, signal, threading; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "pathlib.Path({there!r}).touch(); threading.Event().wait()"
)


async def test_a_command_that_does_not_end_is_killed_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PATIENCE", 0.1)
    there, said = tmp_path / "there", list[str]()
    command = Supervised("web", [sys.executable, "-c", STUBBORN.format(there=str(there))], tmp_path, said.append)
    command.start()
    pid = int((tmp_path / "web.pid").read_text())
    await until(there.exists, "the command runs")
    command.stop()
    assert said == [f"{Path(sys.executable).name} (pid {pid}) did not stop within 0.1 s and was killed"]
    assert not psutil.pid_exists(pid)
