"""The type checker catches what an author can get wrong, and accepts what is right."""

from __future__ import annotations

import re
import subprocess
import sys
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
