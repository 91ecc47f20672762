"""The type checker catches what an author can get wrong, accepts what is right, and knows every public type."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLANTED = ROOT / "tests/typing/planted_mistakes.py"
_MARK = re.compile(r"  # type: ignore\[([a-z-]+)\]")
_ERROR = re.compile(r"^[^:]+:(\d+): error: (.*)  \[([a-z-]+)\]$", re.MULTILINE)


def test_mypy_catches_each_planted_mistake_and_nothing_else(tmp_path: Path) -> None:
    lines = PLANTED.read_text().splitlines()
    planted = {number: mark[1] for number, line in enumerate(lines, 1) if (mark := _MARK.search(line))}
    assert len(planted) > 20
    unmarked = tmp_path / "unmarked.py"
    unmarked.write_text("\n".join(_MARK.sub("", line) for line in lines) + "\n")

    command = [sys.executable, "-m", "mypy", "--strict", "--no-pretty", "--no-error-summary", str(unmarked)]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert told.stderr == ""
    found = {int(number): code for number, _, code in _ERROR.findall(told.stdout)}
    assert found == planted, told.stdout


def test_every_public_type_is_complete(tmp_path: Path) -> None:
    """As whoever installs it sees it: pyright looks for the package in the environment whose `python` comes first."""
    venv.create(tmp_path / "environment", with_pip=False)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path / "environment")}))
    packages.joinpath("perdure.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")

    ended = subprocess.run(
        [sys.executable, "-m", "pyright", "--verifytypes", "perdure", "--ignoreexternal"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{tmp_path}/environment/bin:{os.environ['PATH']}",
            "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    incomplete = [line for line in ended.stdout.splitlines() if "error:" in line]
    assert (ended.returncode, incomplete) == (0, []), ended.stdout + ended.stderr
    assert "Type completeness score: 100%" in ended.stdout
