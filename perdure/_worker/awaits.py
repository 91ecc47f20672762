"""Finds calls of a lifecycle's coroutines that its code does not await, such as `self.perform(...)` as a statement.

The called code never runs: an effect is not performed, and the entity ends as if it were.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator
from typing import Any, TypeGuard


def not_awaited(nodes: Iterable[ast.AST], lifecycle: type[Any]) -> Iterator[ast.Call]:
    """The calls whose coroutine is dropped, or taken for a condition or for an outcome.

    A coroutine that is kept in a variable, returned, or passed to `gather` or a task group may be awaited later.
    """
    for node in nodes:
        for each in _not_kept(node):
            if _makes_coroutine(each, lifecycle):
                yield each


def _not_kept(node: ast.AST) -> list[ast.expr]:
    """The expressions whose value ends with the node."""
    match node:
        case ast.Expr(value=value) | ast.Match(subject=value):
            return _results(value)
        case ast.If(test=value) | ast.While(test=value) | ast.IfExp(test=value) | ast.Assert(test=value):
            return _results(value)
        case ast.UnaryOp(op=ast.Not(), operand=value):
            return _results(value)
        case _:
            return []


def _results(value: ast.expr) -> list[ast.expr]:
    """The expressions of which one is the value of `a and b`, `a or b`, or `a if b else c`."""
    match value:
        case ast.BoolOp(values=values):
            return [each for part in values for each in _results(part)]
        case ast.IfExp(body=body, orelse=orelse):
            return [*_results(body), *_results(orelse)]
        case _:
            return [value]


def _makes_coroutine(value: ast.expr, lifecycle: type[Any]) -> TypeGuard[ast.Call]:
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
            return inspect.iscoroutinefunction(inspect.getattr_static(lifecycle, name, None))
        case _:
            return False
