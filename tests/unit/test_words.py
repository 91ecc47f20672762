"""No public name, setting, command or metric is a word that another one has replaced."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from typer.main import get_command

import perdure
from perdure import Settings, _wire
from perdure._store import schema
from perdure.cli.cli import cli
from perdure.telemetry import names

GIVEN_UP = {
    "adopt": "import, or claim for a database",
    "clean_up": "reconcile",
    "clue": "lookup_hint",
    "effects_at_once": "max_concurrent_effects",
    "ended": "NotPerformed",
    "engine": "temporal_client, Temporal",
    "find": "lookup",
    "formerly": "aliases",
    "grace": "graceful_shutdown_timeout",
    "heard": "acknowledged, received",
    "limit": "RateLimit",
    "occasion": "StepContext",
    "pick_up": "schedule_to_start_timeout",
    "question": "LookupContext",
    "recall": "restore",
    "relay_every": "relay_poll_interval",
    "renew": "continue_as_new",
    "round": "generation",
    "said": "result, report, answer",
    "settle": "resolve, or visibility_delay",
    "told": "notified, handled, signalled",
    "wants": "requires",
    "witness": "confirmed_by",
    "workflows_cached": "max_cached_workflows",
}
IN_SQL = GIVEN_UP.keys() - {"limit", "find", "ended", "grace"}
"""`limit` is a word of SQL's own, and the others are no names there."""
COMMANDS = {each.replace("_", "-") for each in GIVEN_UP} - {"limit", "grace", "ended"}
"""`perdure limit` changes a rate, `--grace` is how old a write must be for a reconciliation, `--ended` selects
entities."""
PARAMETERS = GIVEN_UP.keys() - {"limit", "ended"}
"""`Effect(limit=RateLimit(...))`."""
ROOMS = ("perdure", "perdure.client", "perdure.contracts", "perdure.encryption", "perdure.errors", "perdure.testing")
_COMMENT = re.compile(r"--.*$", re.MULTILINE)
_TEXT = re.compile(r"'[^']*'")


def _exported(room: str) -> Iterator[tuple[str, Any]]:
    module = importlib.import_module(room)
    for name in getattr(module, "__all__", None) or [each for each in vars(module) if not each.startswith("_")]:
        yield name, getattr(module, name)


def _misnamed(file: Path) -> Iterator[str]:
    """Arguments that the docstrings of a file describe, and that their function or class does not take."""
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        body = node.body if isinstance(node, ast.ClassDef) else [node]
        functions = [each for each in body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        made = next((each for each in functions if each.name in (node.name, "__init__")), None)
        if made is None:  # a dataclass or a model
            continue
        taken = {each.arg for each in ast.walk(made.args) if isinstance(each, ast.arg)}
        for section in re.findall(r"^Args:\n((?:    .*\n?|\n)+)", ast.get_docstring(node) or "", re.MULTILINE):
            described = re.findall(r"^    (\w+(?:, \w+)*): ", section, re.MULTILINE)
            yield from (f"{node.name}: {name}" for each in described for name in each.split(", ") if name not in taken)


def _parameters(thing: Any) -> Iterator[str]:
    """Names that a caller of it writes: those of its arguments, its methods and their arguments."""
    callables = [thing] if callable(thing) else []
    if inspect.isclass(thing):
        public = [(name, each) for name, each in vars(thing).items() if not name.startswith("_")]
        yield from (name for name, _ in public)
        callables += [each.__func__ if isinstance(each, classmethod) else each for _, each in public]
    for each in callables:
        if inspect.isfunction(each) or inspect.isclass(each):
            try:
                yield from inspect.signature(each).parameters
            except ValueError:
                continue


def _commands(command: Any) -> Iterator[str]:
    for name, each in getattr(command, "commands", {}).items():
        yield name
        yield from _commands(each)
    for option in command.params:
        yield from (each.lstrip("-") for each in option.opts)


def _advice(word: str) -> str:
    return GIVEN_UP[word.lower().replace("-", "_")]


@pytest.mark.parametrize("room", ROOMS)
def test_no_exported_name_is_a_word_that_was_given_up(room: str) -> None:
    found = {name: _advice(name) for name, _ in _exported(room) if name.lower() in GIVEN_UP}
    assert found == {}


@pytest.mark.parametrize("room", ROOMS)
def test_no_argument_and_no_method_is_a_word_that_was_given_up(room: str) -> None:
    found = {
        f"{name}: {word}": _advice(word)
        for name, thing in _exported(room)
        for word in _parameters(thing)
        if word in PARAMETERS
    }
    assert found == {}


def test_no_setting_is_a_word_that_was_given_up() -> None:
    assert {each: _advice(each) for each in Settings.model_fields if each in GIVEN_UP} == {}


def test_no_command_and_no_option_is_a_word_that_was_given_up() -> None:
    importlib.import_module("perdure.cli")
    assert {each: _advice(each) for each in _commands(get_command(cli)) if each in COMMANDS} == {}


def test_no_name_in_sql_is_a_word_that_was_given_up() -> None:
    found: dict[str, str] = {}
    for file in Path(schema.__file__).parent.rglob("*.sql"):
        code = _TEXT.sub("", _COMMENT.sub("", file.read_text()))
        found |= {f"{file.name}: {each}": _advice(each) for each in re.findall(r"\w+", code) if each in IN_SQL}
    assert found == {}


def test_no_field_that_is_stored_is_a_word_that_was_given_up() -> None:
    models = [
        kind
        for each in pkgutil.iter_modules(_wire.__path__)
        for kind in vars(importlib.import_module(f"{_wire.__name__}.{each.name}")).values()
        if inspect.isclass(kind) and issubclass(kind, BaseModel)
    ]
    fields = {f"{kind.__name__}.{name}": name for kind in models for name in kind.model_fields}
    assert {each: _advice(name) for each, name in fields.items() if name in PARAMETERS - {"grace"}} == {}


def test_no_metric_and_no_span_has_a_word_that_was_given_up() -> None:
    texts = [each if isinstance(each, str) else getattr(each, "name", "") for each in vars(names).values()]
    words = {word for text in texts if isinstance(text, str) for word in re.split(r"[._ ]", text)}
    assert {each: _advice(each) for each in words if each in GIVEN_UP} == {}


def test_each_argument_that_a_docstring_describes_is_one() -> None:
    room = Path(perdure.__file__).parent
    assert [f"{file.relative_to(room)}: {each}" for file in room.rglob("*.py") for each in _misnamed(file)] == []


def test_an_argument_under_another_name_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text('def f(now: int, *, then: int) -> None:\n    """F.\n\n    Args:\n        now, once: a.\n    """\n')
    assert list(_misnamed(file)) == ["f: once"]


def test_a_word_that_was_given_up_is_seen() -> None:
    def start(engine: object) -> None: ...

    assert list(_parameters(start)) == ["engine"]
    assert len(list(_parameters(perdure.Client))) > 20
