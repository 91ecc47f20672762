"""The table of docs/upgrading.md and the tests that make its changes name the same ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = re.compile(r"^\| change \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", re.MULTILINE)


def _changes() -> list[str]:
    """The table's first column; a semicolon parts what is said in one row."""
    table = TABLE.search((ROOT / "docs" / "upgrading.md").read_text())
    assert table is not None
    cells = [line.split("|")[1].strip() for line in table[1].splitlines()]
    return [change.strip() for cell in cells for change in cell.split(";")]


def _made() -> Iterator[str]:
    """What the tests say that they make, by `@row(...)`."""
    for file in (ROOT / "tests" / "upgrades").glob("test_*.py"):
        for test in ast.walk(ast.parse(file.read_text())):
            if isinstance(test, ast.AsyncFunctionDef) and test.name.startswith("test_"):
                yield from _rows(test)


def _rows(test: ast.AsyncFunctionDef) -> Iterator[str]:
    for mark in test.decorator_list:
        if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "row":
            yield from (ast.literal_eval(change) for change in mark.args)


def test_each_change_that_the_table_names_is_made_by_a_test_and_no_other() -> None:
    assert sorted(_changes()) == sorted(set(_made()))
