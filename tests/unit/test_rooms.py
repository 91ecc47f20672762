"""The rooms of the house, and which may know which."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("perdure", "workflows", "activities", "workers", "tests", "bench", "infra")
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "perdure": (),
    "activities/contracts": ("perdure", "activities.contracts"),
    "activities": ("perdure", "activities"),
    "workflows": ("perdure", "activities.contracts", "workflows"),
    "workers": ("perdure", "activities", "workflows", "workers"),
}


def _imports(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.partition(".")[0] in ROOMS}


def _breaches(room: str, allowed: tuple[str, ...]) -> list[str]:
    files = [file for file in (ROOT / room).rglob("*.py") if room != "activities" or "contracts" not in file.parts]
    own = () if room != "perdure" else ("perdure",)
    return [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in files
        for name in sorted(_imports(file))
        if not any(name == each or name.startswith(each + ".") for each in (*allowed, *own))
    ]


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_knows_only_the_rooms_below_it(room: str) -> None:
    assert _breaches(room, MAY_IMPORT[room]) == []


def test_an_arrow_that_points_up_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text("from workers.app import app\nimport activities.smtp\n")
    assert _imports(file) == {"workers.app.app", "activities.smtp"}


def test_the_library_does_not_know_what_its_first_application_does() -> None:
    words = ("mail", "smtp", "comment_notification", "web_job", "web job", "job type")
    guilty = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in (ROOT / "perdure").rglob("*")
        if file.suffix in (".py", ".sql")
        for number, line in enumerate(file.read_text().lower().splitlines(), start=1)
        if any(word in line for word in words)
    ]
    assert guilty == []


@pytest.mark.parametrize(
    "module",
    [
        "activities.contracts.mail",
        *("workflows.comment_notification", "workflows.mailing", "workflows.web_job"),
    ],
)
def test_a_contract_pulls_in_no_client_library(module: str) -> None:
    heavy = ("asyncpg", "aiohttp", "aiosmtplib", "typer")
    code = f"import sys, {module}; print([each for each in {heavy!r} if each in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"


def test_the_wheel_installs_one_name_only(tmp_path: Path) -> None:
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(build, check=True, capture_output=True)
    names = zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {"perdure"}
    assert {"perdure/py.typed", "perdure/schema/0001_tables.sql"} <= set(names)
