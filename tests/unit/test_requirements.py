"""An extra of the wheel installs only what the library imports, and each application names what it imports."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
APPLICATIONS = sorted(each.parent.name for each in (ROOT / "activities").glob("*/README.md"))
OURS = {"perdure", "activities", "workers", "workflows"}
OF_PYDANTIC = "pydantic-core"
"""Pydantic pins one version of it."""


def imported(*folders: Path) -> list[set[str]]:
    """For each module that the files of these folders import, the packages that hold a part of it."""
    found = packages_distributions()
    names = {name for folder in folders for file in folder.rglob("*.py") for name in modules(file)}
    return [{canonicalize_name(each) for each in found[name]} for name in names - OURS - sys.stdlib_module_names]


def modules(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Import():
                yield from (each.name.partition(".")[0] for each in node.names)
            case ast.ImportFrom(module=str(name), level=0):
                yield name.partition(".")[0]
            case ast.Call(func=ast.Name(id="_library"), args=[ast.Constant(value=str(name))]):
                yield name.partition(".")[0]
            case _:
                pass


def named(wanted: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(each).name) for each in wanted}


def required(file: Path) -> list[str]:
    """The lines of a requirements.txt, with those of the files that it includes."""
    lines = file.read_text().split("\n") if file.exists() else []
    included = [each for line in lines if line.startswith("-r ") for each in required(file.parent / line[3:])]
    return [line for line in lines if line and not line.startswith("-r ")] + included


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_installs_only_what_the_library_imports(extra: str) -> None:
    assert named(EXTRAS[extra]) - {"perdure"} <= set[str]().union(*imported(ROOT / "perdure"))


@pytest.mark.parametrize("application", APPLICATIONS)
def test_an_application_names_the_packages_that_it_imports(application: str) -> None:
    wanted = required(ROOT / "activities" / application / "requirements.txt")
    there = named(PROJECT["dependencies"] + wanted) | {OF_PYDANTIC}
    folders = (ROOT / room / application for room in ("activities", "workflows", "workers"))
    assert [each for each in imported(*folders) if not each & there] == []
