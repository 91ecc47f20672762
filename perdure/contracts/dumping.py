"""Dumps values of the author's types as JSON data.

JSON has no Infinity and no NaN. Pydantic writes null in their place, so the reader would get another value, or none.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from typing import Any

from pydantic_core import SchemaSerializer, from_json

from perdure.errors import InvalidInput

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
