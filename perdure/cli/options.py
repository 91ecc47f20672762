"""Options that belong together: a dataclass, whose fields a command has on its command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Concatenate, ParamSpec, TypeVar, get_type_hints

T = TypeVar("T")
P = ParamSpec("P")


def options_of(group: type[T]) -> Callable[[Callable[Concatenate[T, P], None]], Callable[..., None]]:
    """A command whose first parameter is such a dataclass has its fields as options, before its own."""

    def decorate(command: Callable[Concatenate[T, P], None]) -> Callable[..., None]:
        shared, own = get_type_hints(group, include_extras=True), get_type_hints(command, include_extras=True)
        made: list[Any] = list(fields(group))  # type: ignore[arg-type]
        names = [each.name for each in made]

        def run(**given: Any) -> None:
            command(group(**{name: given.pop(name) for name in names}), **given)  # type: ignore[call-arg]

        first = [_parameter(each.name, shared[each.name], each.default) for each in made]
        more = list(inspect.signature(command).parameters.values())[1:]
        rest = [_parameter(each.name, own[each.name], each.default) for each in more]
        run.__signature__ = inspect.Signature(first + rest)  # type: ignore[attr-defined]
        run.__doc__, run.__name__ = command.__doc__, command.__name__
        return run

    return decorate


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
