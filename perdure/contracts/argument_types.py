"""Refuses an argument of another type where it is given, by one error that names it."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, get_args

from perdure.errors import DeclarationError


def check_types(whose: str, kind: type[Any] | UnionType, **given: Any) -> None:
    """Refuse an argument of another type.

    Args:
        whose: the declaration that has these arguments, for the message.
        kind: the type, or the union of types.
        given: the arguments, by their names.

    Raises:
        DeclarationError: one of them has another type; the message names it.
    """
    for name, value in given.items():
        if not isinstance(value, kind):
            kinds = get_args(kind) or (kind,)
            wanted = " or ".join("None" if each is NoneType else each.__name__ for each in kinds)
            found = "a class" if isinstance(value, type) else f"of type {type(value).__name__}"
            raise DeclarationError(f"{whose}: {name}={value!r} is {found}: it must be of type {wanted}")
