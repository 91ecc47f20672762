"""The schema files of this version: numbered migrations, and the current text of each function."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import resources
from importlib.metadata import version
from importlib.resources.abc import Traversable

_MIGRATION = re.compile(r"(\d{4})_(\w+)\.sql")
_FUNCTION = re.compile(r"(\w+)\.sql")
_OLDEST = re.compile(r"^-- oldest worker: (\d+)$", re.MULTILINE)
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file of SQL.

    Attributes:
        oldest: workers run on it whose newest migration is this one or a later one.
    """

    number: int
    name: str
    sql: str
    oldest: int = 1


@dataclass(frozen=True, slots=True)
class Function:
    """One file of `functions`: a function, and beside it those that it calls by the rights of its caller."""

    name: str
    sql: str

    @property
    def sha256(self) -> str:
        """By which a changed text is known."""
        return sha256(self.sql.encode()).hexdigest()


def migrations() -> list[Migration]:
    """All migrations of this version, in order."""
    found = []
    for match, sql in _files(folder(), _MIGRATION):
        demand = _OLDEST.search(sql)
        found.append(Migration(int(match[1]), match[2], sql, int(demand[1]) if demand else 1))
    return sorted(found, key=lambda each: each.number)


@cache
def functions() -> tuple[Function, ...]:
    """The functions of this version, by name."""
    found = (Function(match[1], sql) for match, sql in _files(folder() / "functions", _FUNCTION))
    return tuple(sorted(found, key=lambda each: each.name))


def folder() -> Traversable:
    """Where the files are."""
    return resources.files("perdure._store.schema")


def release() -> str:
    """The release that this is."""
    return version("perdure")


def order(named: str) -> tuple[int, ...]:
    """Sorts releases by age."""
    numbers = _NUMBERS.match(named)
    return tuple(int(each) for each in numbers[0].split(".")) if numbers else ()


def _files(where: Traversable, pattern: re.Pattern[str]) -> list[tuple[re.Match[str], str]]:
    matches = ((pattern.fullmatch(each.name), each) for each in where.iterdir())
    return [(match, each.read_text("utf-8")) for match, each in matches if match]
