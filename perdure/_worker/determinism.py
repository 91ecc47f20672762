"""Refuses lifecycles whose code reads the clock, draws random numbers, does I/O, keeps globals, or forgets an await,
before a worker runs.

Temporal executes a workflow's code again from its history, so that code must do the same each time. This reads the
source of a lifecycle's methods and of the functions that they call, and names file, line and the deterministic call to
use. It follows calls by name. What it cannot see (a call through a variable, a library that reads the clock) is found
by the runs in the sandbox (`perdure._worker.sandbox`) and by replays.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
import types
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from temporalio.worker.workflow_sandbox import SandboxMatcher, SandboxRestrictions

from perdure._worker.awaits import not_awaited
from perdure.errors import DeclarationError

_LIBRARIES = ("aiohttp", "asyncpg", "boto3", "httpx", "psycopg", "redis", "requests", "urllib3")
"""Libraries that do I/O, beside those that the SDK's sandbox refuses."""
_OF_ASYNCIO = frozenset({"create_subprocess_exec", "create_subprocess_shell", "open_connection", "run", "to_thread"})
_REFUSED = SandboxRestrictions.invalid_module_members_default | SandboxMatcher(
    children={"asyncio": SandboxMatcher(use=set(_OF_ASYNCIO))}
    | {name: SandboxMatcher(use={"*"}) for name in _LIBRARIES}
)
_INSTEAD = {
    "datetime": "use workflow.now()",
    "time.sleep": "use workflow.sleep()",
    "time": "use workflow.time() or workflow.now()",
    "random": "use workflow.random()",
    "secrets": "use workflow.random(), or draw it in the body of a step",
    "uuid": "use workflow.uuid4()",
    "asyncio.wait": "use workflow.wait()",
    "asyncio.as_completed": "use workflow.as_completed()",
    "threading": "use asyncio.create_task()",
    "concurrent": "use asyncio.create_task()",
    "multiprocessing": "use asyncio.create_task()",
    "os": "give it with the input, or do it in the body of an effect or step",
}
_OTHERWISE = "do it in the body of an effect or step"
_CONTAINERS = (list, dict, set, bytearray, deque)
_MUTATORS = frozenset(
    {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "remove"}
    | {"reverse", "rotate", "setdefault", "sort", "subtract", "update"}
)
_GLOBAL = "keep it in an attribute that __init__ sets: runs share what a module or class holds"


class Unreadable(Exception):
    """The source of a lifecycle is missing."""


def check(lifecycle: type[Any]) -> None:
    """Read a lifecycle's code, and the functions that it calls.

    Raises:
        DeclarationError: the code is not deterministic, or calls a coroutine of the lifecycle without `await`. The
            message names file, line and the replacement.
        Unreadable: the source is missing.
    """
    own = [each for each in lifecycle.__mro__ if not _is_library(each.__module__)]
    for each in own:
        _source(each.__module__)
    waiting: deque[tuple[types.FunctionType, type[Any] | None]] = deque(
        (function, each) for each in own for function in _methods(each)
    )
    seen: set[types.CodeType] = set()
    while waiting:
        function, owner = waiting.popleft()
        if function.__code__ in seen:
            continue
        seen.add(function.__code__)
        reading = _Reading(function, owner)
        for finding in reading.findings():
            raise DeclarationError(f"{lifecycle.__name__} is not deterministic: {finding}")
        if owner in own:
            for finding in reading.not_awaited(lifecycle):
                raise DeclarationError(f"{lifecycle.__name__} forgets an await: {finding}")
        waiting.extend(reading.called())


@dataclass(frozen=True)
class _Source:
    """A module's tree, by the first line of each function, and the names that it imports."""

    functions: Mapping[int, ast.AST]
    imported: Mapping[str, tuple[str, ...]]
    file: str


class _Reading:
    """Reads one function."""

    def __init__(self, function: types.FunctionType, owner: type[Any] | None) -> None:
        source = _source(function.__module__)
        self._owner = owner
        self._globals = function.__globals__
        self._file = source.file
        node = source.functions.get(function.__code__.co_firstlineno)
        if node is None:
            raise Unreadable(function.__qualname__)
        self._nodes = list(_walk(node))
        self._imported = {**source.imported, **_imported(self._nodes)}
        self._declared_global = {name for each in self._nodes if isinstance(each, ast.Global) for name in each.names}
        self._local = {*function.__code__.co_varnames, *function.__code__.co_cellvars, *function.__code__.co_freevars}
        self._local -= self._declared_global | set(_imported(self._nodes))

    def findings(self) -> Iterator[str]:
        """The places that are not deterministic, each with its replacement."""
        called = {id(each.func) for each in self._nodes if isinstance(each, ast.Call)}
        for node in self._nodes:
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                path = self._path(node)
                if path and _is_refused(path, used=id(node) in called):
                    yield self._found(node, ".".join(path).removeprefix("__builtins__."), _instead(path))
            if (kept := self._kept(node)) is not None:
                yield self._found(node, f"{kept} is changed, which is shared by all runs of a worker", _GLOBAL)

    def not_awaited(self, lifecycle: type[Any]) -> Iterator[str]:
        """The calls of the lifecycle's own coroutines that nobody awaits."""
        for call in not_awaited(self._nodes, lifecycle):
            name = ast.unparse(call.func)
            yield self._found(call, f"{name}(...) never runs", f"write `await {name}(...)`")

    def called(self) -> Iterator[tuple[types.FunctionType, type[Any] | None]]:
        """The functions of the application, and the methods of classes, that the function names."""
        for node in self._nodes:
            if not isinstance(node, ast.Name | ast.Attribute):
                continue
            found = inspect.unwrap(value) if callable(value := self._value(node)) else value
            if isinstance(found, types.FunctionType) and not _is_library(found.__module__):
                yield found, None
            elif isinstance(found, type) and not _is_library(found.__module__):
                for each in _methods(found):
                    yield each, found

    def _found(self, node: ast.AST, what: str, instead: str) -> str:
        return f"{self._file}:{getattr(node, 'lineno', 0)}: {what}: {instead}"

    def _path(self, node: ast.expr) -> tuple[str, ...] | None:
        """The full name of an expression, such as `datetime.datetime.now`; None if it belongs to no library."""
        match node:
            case ast.Name(id=name) if name in self._local:
                return None
            case ast.Name(id=name) if name in self._imported:
                return self._imported[name]
            case ast.Name(id=name) if name not in self._globals and hasattr(builtins, name):
                return ("__builtins__", name)
            case ast.Attribute(value=base, attr=attribute):
                path = self._path(base)
                return path and (*path, attribute)
            case _:
                return None

    def _value(self, node: ast.AST) -> Any:
        """The value of a global name, or of an attribute of one; None for other expressions."""
        match node:
            case ast.Name(id=name) if name not in self._local:
                return self._globals.get(name)
            case ast.Attribute(value=base, attr=attribute):
                holder = self._value(base)
                if isinstance(holder, types.ModuleType | type):
                    return inspect.getattr_static(holder, attribute, None)
                return None
            case _:
                return None

    def _kept(self, node: ast.AST) -> str | None:
        """The global, or attribute of a class, that a node changes."""
        match node:
            case ast.Call(func=ast.Attribute(value=holder, attr=method)) if method in _MUTATORS:
                return self._shared(holder)
            case ast.Subscript(value=holder, ctx=ast.Store() | ast.Del()):
                return self._shared(holder)
            case ast.Attribute(value=holder, attr=attribute, ctx=ast.Store() | ast.Del()):
                return f"{ast.unparse(holder)}.{attribute}" if isinstance(self._value(holder), type) else None
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if name in self._declared_global:
                return name
        return None

    def _shared(self, holder: ast.expr) -> str | None:
        match holder:
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=attribute) if self._owner is not None:
                value = vars(self._owner).get(attribute)
                set_by_itself = any(
                    isinstance(each, ast.Attribute) and each.attr == attribute and isinstance(each.ctx, ast.Store)
                    for function in _methods(self._owner)
                    for each in ast.walk(_source(function.__module__).functions[function.__code__.co_firstlineno])
                )
                return ast.unparse(holder) if isinstance(value, _CONTAINERS) and not set_by_itself else None
        return ast.unparse(holder) if isinstance(self._value(holder), _CONTAINERS) else None


def _is_refused(path: tuple[str, ...], *, used: bool) -> bool:
    """Whether the sandbox would refuse to access this path, or to call it."""
    used = used or path[0] == "os"  # os.environ["NAME"] is no call
    matcher: SandboxMatcher | None = _REFUSED
    for name in (*path, "__call__") if used else path:
        if matcher is None or name in matcher.exclude:
            return False
        if matcher.match_self or {name, "*"} & (matcher.access | (matcher.use if used else set())):
            return True
        matcher = matcher.children.get(name) or matcher.children.get("*")
    return matcher is not None and matcher.match_self


def _instead(path: tuple[str, ...]) -> str:
    return _INSTEAD.get(".".join(path[:2]), _INSTEAD.get(path[0], _OTHERWISE))


def _methods(kind: type[Any]) -> Iterator[types.FunctionType]:
    """The functions that a class defines itself, without the wrappers of decorators."""
    for value in vars(kind).values():
        for each in (value.fget, value.fset) if isinstance(value, property) else (value,):
            function = getattr(each, "__func__", each)
            if callable(function) and not isinstance(function, type):
                function = inspect.unwrap(function)
            # a method that a decorator such as dataclass has made has no source
            if isinstance(function, types.FunctionType) and not (
                function.__code__.co_filename.startswith("<") or _is_library(function.__module__)
            ):
                yield function


def _walk(function: ast.AST) -> Iterator[ast.AST]:
    """The body of a function, without decorators, defaults, and parts that are marked as not deterministic."""
    waiting: list[ast.AST] = list(getattr(function, "body", []))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.With) and any("sandbox_unrestricted" in ast.unparse(each) for each in node.items):
            continue
        yield node
        waiting.extend(ast.iter_child_nodes(node))


def _imported(nodes: list[ast.AST]) -> dict[str, tuple[str, ...]]:
    """The names that import statements bind, with the full names of the imported objects."""
    names: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    full = tuple(alias.name.split("."))
                    names |= {alias.asname: full} if alias.asname else {full[0]: full[:1]}
            case ast.ImportFrom(module=str(module), names=aliases, level=0):
                names |= {each.asname or each.name: (*module.split("."), each.name) for each in aliases}
            case _:
                pass
    return names


@cache
def _source(module: str) -> _Source:
    try:
        loaded = sys.modules[module]
        tree = ast.parse(inspect.getsource(loaded))
    except (KeyError, OSError, TypeError, SyntaxError) as error:
        raise Unreadable(module) from error
    functions: dict[int, ast.AST] = {}
    outside: list[ast.AST] = []
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, inside = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions[min([node.lineno, *(each.lineno for each in node.decorator_list)])] = node
            inside = True
        elif not inside:
            outside.append(node)
        waiting.extend((each, inside) for each in ast.iter_child_nodes(node))
    return _Source(functions, _imported(outside), inspect.getsourcefile(loaded) or module)


@cache
def _is_library(module: str | None) -> bool:
    """Whether a module is not part of the application, but of Perdure, Python, or an installed package."""
    top = (module or "builtins").partition(".")[0]
    if top in sys.stdlib_module_names or top in ("perdure", "temporalio", "pydantic"):
        return True
    file = getattr(sys.modules.get(module or ""), "__file__", None) or ""
    return bool({"site-packages", "dist-packages"} & set(Path(file).parts))
