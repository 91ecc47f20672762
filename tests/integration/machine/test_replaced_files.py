"""A process that reads its certificates at its start is restarted when they were replaced, and can be used."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from perdure._machine.replaced_files import ReplacedFiles
from perdure._worker.child import Child
from tests.deadline import until
from tests.keeping import kept

SERVER = """
import pathlib, signal, sys
pathlib.Path(sys.argv[2]).write_text(pathlib.Path(sys.argv[1]).read_text())
signal.pause()
"""
"""It reads its certificate once, and writes down which one it has."""


async def test_it_is_restarted_for_files_that_can_be_used_and_for_no_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cert, has = tmp_path / "cert.pem", tmp_path / "has"
    cert.write_text("first")
    caplog.set_level(logging.INFO, "perdure.up")
    tried: list[str] = []

    def put(text: str) -> None:
        new = cert.with_suffix(".new")
        new.write_text(text)
        new.rename(cert)

    async def check() -> None:
        tried.append(cert.read_text())
        if cert.read_text() == "half":
            raise OSError("certificate and key do not belong together")

    child = Child("temporal", [sys.executable, "-c", SERVER, str(cert), str(has)], {})
    replaced = ReplacedFiles(child, [cert], check, 0.05)
    async with kept(child):
        await replaced.start()
        await until(lambda: has.is_file() and has.read_text() == "first", "it runs")

        put("half")
        await until(lambda: tried.count("half") > 2, "they were tried more than once")
        assert child.starts == 1
        put("second")
        await until(lambda: has.read_text() == "second", "it has read the new ones")
        assert child.starts == 2
        await replaced.stop()
    said = [each.getMessage() for each in caplog.records]
    assert said.count("certificates of temporal: failed, goes on") == 1
    assert said.count("certificates were replaced: the process is restarted, to read them") == 1
