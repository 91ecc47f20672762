"""The folders of tests mirror the packages of `perdure`: each names one, a private one without its underscore."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def packages(library: Path) -> set[str]:
    """The packages of a library as paths below it, without their underscores."""
    found = {each.parent.relative_to(library) for each in library.rglob("__init__.py")}
    return {"/".join(part.removeprefix("_") for part in path.parts) for path in found}


def strangers(tests: Path, library: Path) -> list[str]:
    """What is wrong with each folder of tests that names no package. A folder without Python files holds data."""
    folders = {file.parent for file in tests.rglob("*.py")} - {tests}
    names = {folder.relative_to(tests).as_posix() for folder in folders}
    return [
        f"{tests.name}/{name} names no package of {library.name}: move its tests to the folder of the package they test"
        for name in sorted(names - packages(library))
    ]


@pytest.mark.parametrize("level", ["unit", "integration"])
def test_each_folder_of_tests_names_a_package(level: str) -> None:
    found = strangers(ROOT / "tests" / level, ROOT / "perdure")
    assert not found, "\n".join(found)


def test_a_folder_that_names_no_package_is_named(tmp_path: Path) -> None:
    for file in (
        *("perdure/__init__.py", "perdure/_store/__init__.py", "perdure/_store/schema/__init__.py"),
        *("unit/store/test_rows.py", "unit/store/schema/test_files.py", "unit/cleaning/test_rows.py"),
        *("unit/_store/test_rows.py", "unit/test_errors.py", "unit/store/recorded/one.json"),
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    assert strangers(tmp_path / "unit", tmp_path / "perdure") == [
        f"unit/{name} names no package of perdure: move its tests to the folder of the package they test"
        for name in ("_store", "cleaning")
    ]
