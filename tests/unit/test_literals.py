"""No plain literal of SQL has a backslash. With `standard_conforming_strings = off`, which a database or a role may
have, PostgreSQL takes it for an escape, and `\\d` is `d`. A literal E'...' has the same meaning in each session.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import perdure

ROOT = Path(perdure.__file__).parent
FOLDERS = (ROOT, ROOT.parent / "activities", ROOT.parent / "workers")
_LITERAL = re.compile(
    r"--[^\n]*|/\*.*?\*/|\"[^\"]*\""
    r"|\b[eE]'(?:[^'\\]|\\.|'')*'(?:[ \t]*\n\s*'(?:[^'\\]|\\.|'')*')*"  # a continuation is a literal of the same kind
    r"|'(?P<plain>(?:[^']|'')*)'",
    re.DOTALL,
)
_STATEMENT = re.compile(r"\s*(select|insert|update|delete|with|do|create|alter|set|begin)\b", re.IGNORECASE)


def _with_backslash(sql: str) -> list[str]:
    return [found["plain"] for found in _LITERAL.finditer(sql) if "\\" in (found["plain"] or "")]


def _statements(file: Path) -> Iterator[str]:
    """The statements in a file: all of a SQL file, and the texts in Python that begin like one."""
    if file.suffix == ".sql":
        yield file.read_text()
        return
    tree = ast.parse(file.read_text())
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    first = [node.body[0] for node in ast.walk(tree) if isinstance(node, kinds) and node.body]
    prose = {id(node.value) for node in first if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            text = node.value
        else:
            continue
        if _STATEMENT.match(text):
            yield text


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_no_plain_literal_has_a_backslash(folder: Path) -> None:
    files = [file for suffix in ("sql", "py") for file in sorted(folder.rglob(f"*.{suffix}"))]
    statements = [(file, each) for file in files for each in _statements(file)]
    assert statements
    assert [f"{file}: {each}" for file, sql in statements for each in _with_backslash(sql)] == []


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        (r"select x ~ '^\d$' -- why not '\s'", [r"^\d$"]),
        (r"select $$ select 'it''s \w' $$", [r"it''s \w"]),
        ("select E'\\\\d', e'[\\u0001'\n    '\\u0002', '[0-9]' /* '\\d' */", []),
        (r"""select "a\b", 'c' || '\d'""", [r"\d"]),
    ],
)
def test_the_search_finds_plain_literals_alone(sql: str, found: list[str]) -> None:
    assert _with_backslash(sql) == found
