"""Each package sends exactly the queries in its own folder."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import perdure
from perdure._store.sql import queries, shared

ROOT = Path(perdure.__file__).parent
FILES = sorted(ROOT.glob("*/queries/*.sql"))
_NAMED = re.compile(r"(?<![.\w])(query|shared)\(\"(\w+)\"\)")


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parents[1].name}/{file.stem}")
def test_a_query_is_sent_by_its_room_or_by_several_where_the_store_has_it(file: Path) -> None:
    room = file.parents[1]
    named = [each for each in ROOT.rglob("*.py") if f'"{file.stem}"' in each.read_text()]
    rooms = {ROOT / each.relative_to(ROOT).parts[0] for each in named}
    assert room in rooms or (room.name == "_store" and len(rooms) > 1)


def test_each_query_that_is_named_is_there() -> None:
    found = 0
    for module in ROOT.rglob("*.py"):
        text = module.read_text()
        if "from perdure._store.sql import" not in text:
            continue
        own = queries(".".join(("perdure", *module.relative_to(ROOT).with_suffix("").parts)))
        for which, name in _NAMED.findall(text):
            assert (own if which == "query" else shared)(name).strip()
            found += 1
    assert found > 60


_OF_A_TABLE = re.compile(
    r"^\s*(select|insert|update|delete|with)\b[^{]*\b(from|into|update|join)\s+perdure\.\w+\b(?!\()[^{]*$",
    re.IGNORECASE,
)


def _inline(file: Path) -> Iterator[str]:
    """Statements on tables of perdure that stand in Python. What is made of parts, or calls one function, may."""
    tree = ast.parse(file.read_text())
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    first = [node.body[0] for node in ast.walk(tree) if isinstance(node, kinds) and node.body]
    prose = {id(node.value) for node in first if isinstance(node, ast.Expr)}
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in prose | parts:
            continue
        if isinstance(node.value, str) and _OF_A_TABLE.search(node.value):
            yield f"{file.relative_to(ROOT)}:{node.lineno}"


def test_no_statement_on_a_table_stands_in_python() -> None:
    """`perdure.testing` has its statements beside what it compares with their answers."""
    files = (file for file in ROOT.rglob("*.py") if "testing" not in file.parts)
    assert [each for file in files for each in _inline(file)] == []
