"""Dumps values of the author's types as JSON data, and loads them from it.

JSON has no Infinity and no NaN. Pydantic writes null in their place, so the reader would get another value, or none.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic_core import SchemaSerializer, ValidationError, from_json, to_json

from perdure.errors import InvalidInput

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

NO_NUMBER = "is Infinity or NaN, which JSON does not have: give None, or a text"
_MANY = (list, tuple, set, frozenset, deque)


def dump(serializer: SchemaSerializer, value: Any, *, context: Any = None, warnings: bool = True) -> Any:
    """`value` as JSON data.

    Raises:
        InvalidInput: a number in it is Infinity or NaN, and the type does not declare `ser_json_inf_nan="strings"`. The
            message has the place.
    """
    data = serializer.to_python(value, mode="json", context=context, warnings=warnings)
    try:
        plain = serializer.to_python(value, context=context, warnings=False)  # of `Any`, the data has None already
    except Exception:  # a serializer of the author's may be for JSON alone
        plain = data
    if no_number_in(plain, data) is None:
        return data
    data = from_json(serializer.to_json(value, context=context, warnings=warnings))  # applies `ser_json_inf_nan`
    if place := no_number_in(plain, data):
        raise InvalidInput(f"{place} {NO_NUMBER}")
    return data


def load(adapter: TypeAdapter[T], data: Any, *, context: Any = None) -> T:
    """The value of the author's type that `data`, its JSON data, stands for.

    Pydantic reads the data as Python values first, which is cheaper and decides as every run has decided so far: as
    JSON, text for `datetime | str` would become a time. But a strict type takes neither text for a time nor a list for
    a tuple unless it is read as JSON.

    Raises:
        ValidationError: the data does not fit.
    """
    try:
        return adapter.validate_python(data, context=context)
    except ValidationError:
        text = to_json(data)
    return adapter.validate_json(text, context=context)


def no_number_in(plain: Any, data: Any, place: str = "") -> str | None:
    """The place of an Infinity or NaN in `plain` that `data`, its JSON data, does not show as text; None if there is
    none."""
    if isinstance(plain, float):
        lost = not math.isfinite(plain) and (data is None or isinstance(data, float))
        return (place or "the whole") if lost else None
    inner: Iterable[tuple[Any, Any, Any]] = ()
    if isinstance(plain, dict) and isinstance(data, dict):
        inner = zip(plain, plain.values(), data.values(), strict=False)
    elif isinstance(plain, _MANY) and isinstance(data, (list, tuple)):
        inner = zip(range(len(plain)), plain, data, strict=False)
    for name, value, dumped in inner:
        if isinstance(value, (float, dict, *_MANY)):
            part = str(name) if isinstance(name, int) or (isinstance(name, str) and name.isidentifier()) else "*"
            if found := no_number_in(value, dumped, f"{place}.{part}".lstrip(".")):
                return found
    return None
