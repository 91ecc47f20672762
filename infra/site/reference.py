"""The reference pages, generated from the code: nothing here is written by hand and nothing of it is committed.

Each `*_rows` function returns one row for each subject, so that a test can compare it with the code.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer.main

import perdure.cli
from infra.site import rights
from perdure._store import schema
from perdure._store.schema.kinds import RIGHTS, Kind
from perdure.telemetry import names

FOLDER = "reference"
ROOMS = ("perdure", "perdure.client", "perdure.console", "perdure.contracts", "perdure.encryption", "perdure.testing")
CALLERS = (Kind.APP, Kind.OPERATOR, Kind.READER, Kind.CALLBACKS, Kind.CONSOLE)
"""The kinds of roles that people and apps use; the others belong to processes of perdure."""
_FUNCTION = re.compile(
    r"((?:^--[^\n]*\n)*)^create or replace function perdure\.(\w+)\s*\((.*?)\)\s+returns (.*?)\s+language ",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SqlFunction:
    """A public SQL function.

    Attributes:
        callers: the kinds of roles that may call it.
    """

    name: str
    arguments: str
    result: str
    comment: str
    callers: tuple[Kind, ...]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown. Bars, line ends and angle brackets in a cell are made harmless."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines) + "\n"


def _cell(text: str) -> str:
    parts = " ".join(text.split()).replace("|", "\\|").split("`")
    return "`".join(part if index % 2 else part.replace("<", "&lt;") for index, part in enumerate(parts))


def code(text: str) -> str:
    """Return the text as code in Markdown; nothing stays nothing."""
    return f"`{text}`" if text else ""


def sql_functions() -> list[SqlFunction]:
    """Every SQL function that an app, a person or a receiver of callbacks may be granted."""
    found: list[SqlFunction] = []
    for file in sorted((Path(schema.__file__).parent / "functions").glob("*.sql")):
        for comment, name, arguments, result in _FUNCTION.findall(file.read_text("utf-8")):
            public = name.removesuffix("_any")
            callers = tuple(kind for kind in CALLERS if public in (RIGHTS[kind].functions or ()))
            if callers and public not in {each.name for each in found}:
                text = " ".join(line.removeprefix("--").strip() for line in comment.splitlines())
                found.append(SqlFunction(public, " ".join(arguments.split()), " ".join(result.split()), text, callers))
    return found


def metric_rows() -> list[tuple[str, str, str, str]]:
    """Name, kind, labels and meaning of each metric."""
    return [(code(each.name), each.kind, ", ".join(map(code, each.labels)), each.meaning) for each in names.METRICS]


def commands() -> list[tuple[str, Any]]:
    """Every command with the words that call it. Groups of commands are left out."""
    return list(_commands(typer.main.get_command(perdure.cli.cli), ("perdure",)))


def _commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield " ".join(words), command
    for name, each in sorted(getattr(command, "commands", {}).items()):
        yield from _commands(each, (*words, name))


def parameter_rows(command: Any) -> list[tuple[str, str, str]]:
    """Name, default and meaning of each argument and option of a command."""
    rows = []
    for each in command.params:
        options = ", ".join(map(code, (*each.opts, *each.secondary_opts)))
        name = options if each.opts[0].startswith("-") else code(each.name.upper())
        shown = "" if each.default in (None, False, ()) or callable(each.default) else code(str(each.default))
        default = "required" if each.required else shown
        rows.append((name, default, getattr(each, "help", None) or ""))
    return rows


def exported(room: str) -> list[str]:
    """The public names of a module, in the order of the alphabet."""
    module = importlib.import_module(room)
    return sorted(getattr(module, "__all__", None) or [name for name in vars(module) if _ours(module, name)])


def _ours(module: Any, name: str) -> bool:
    return not name.startswith("_") and str(getattr(vars(module)[name], "__module__", "")).startswith("perdure")


def api_names() -> list[tuple[str, list[str]]]:
    """The names of each public module; a name that an earlier one exports stands there alone."""
    seen: set[int] = set()
    found = []
    for room in ROOMS:
        module = importlib.import_module(room)
        own = [name for name in exported(room) if id(getattr(module, name)) not in seen]
        seen |= {id(getattr(module, name)) for name in own}
        found.append((room, own))
    return found


def _sql_page() -> str:
    parts = ["# SQL functions\n\nThe schema `perdure` has these functions for apps and people.\n"]
    for each in sql_functions():
        callers = ", ".join(f"`{kind}`" for kind in each.callers)
        signature = f"```sql\nperdure.{each.name}({each.arguments}) returns {each.result}\n```"
        parts.append(f"## perdure.{each.name}\n\n{signature}\n\n{each.comment}\n\nRoles that may call it: {callers}.\n")
    return "\n".join(parts)


def _command_page() -> str:
    parts = ["# The command, option by option\n\nEvery command and option of `perdure`.\n"]
    for words, command in commands():
        text = inspect.cleandoc(command.help or "").replace("<", "&lt;")
        rows = parameter_rows(command)
        listed = table(("argument or option", "default", "meaning"), rows) if rows else ""
        parts.append(f"## {words}\n\n{text}\n\n{command.epilog or ''}\n\n{listed}")
    return "\n".join(parts)


def _metrics_page() -> str:
    own = table(("metric", "kind", "labels", "meaning"), metric_rows())
    sdk = "\n".join(f"- `{each}`" for each in names.SDK_METRICS)
    spans = "\n".join(f"- `{each}`" for each in names.SPANS)
    return (
        f"# Metrics\n\n{own}\n## Metrics of Temporal's SDK\n\nThe dashboard and the alerts read these.\n\n{sdk}\n\n"
        f"## Spans\n\n{spans}\n"
    )


def _api_page() -> str:
    parts = ["# Python API\n"]
    for room, own in api_names():
        parts += [f"## {room}\n", *(f"::: {room}.{name}\n" for name in own)]
    return "\n".join(parts)


def api_text() -> str:
    """The page of the API as plain Markdown, with signatures and docstrings in place of directives."""
    parts = ["# Python API\n"]
    for room, own in api_names():
        module = importlib.import_module(room)
        parts.append(f"## {room}\n")
        for name in own:
            thing = getattr(module, name)
            parts.append(f"### {room}.{name}\n\n```text\n{name}{_signature(thing)}\n\n{_doc(thing)}\n```\n")
    return "\n".join(parts)


def _signature(thing: Any) -> str:
    try:
        return str(inspect.signature(thing))
    except (TypeError, ValueError):
        return ""


def _doc(thing: Any) -> str:
    return (inspect.getdoc(thing) or "") if inspect.isclass(thing) or inspect.isroutine(thing) else repr(thing)


PAGES: dict[str, Callable[[], str]] = {
    f"{FOLDER}/api.md": _api_page,
    f"{FOLDER}/sql.md": _sql_page,
    f"{FOLDER}/command.md": _command_page,
    f"{FOLDER}/metrics.md": _metrics_page,
    f"{FOLDER}/rights.md": rights.page,
}
"""Each page by its place among the pages under docs/, with the function that makes it."""
