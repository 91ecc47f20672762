"""Numbers of JSON data with more digits than a `float` holds. PostgreSQL keeps them all."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pydantic_core import ValidationError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MORE_DIGITS = "has a number with more digits than a float holds, for a Decimal: write it as text"


class Digits(float):
    """The nearest float. Its text has all digits, so a `Decimal` that Pydantic makes of it is exact."""

    __slots__ = ("_text",)
    _text: str

    def __new__(cls, text: str) -> Digits:
        made = super().__new__(cls, text)
        made._text = text
        return made

    def __str__(self) -> str:
        return self._text


def number(text: str) -> float:
    """The number of a JSON text that has a point or an exponent."""
    value = float(text)
    written = repr(value)
    return value if written == text or Decimal(written) == Decimal(text) else Digits(text)


def loses_digits(adapter: TypeAdapter[Any], data: Any) -> bool:
    """Whether the author's type reads another value once the numbers in `data` are floats, as Temporal's JSON has them:
    it has a `Decimal` for one of them."""
    if not _has_digits(data):
        return False
    try:
        return bool(adapter.validate_python(data) != adapter.validate_python(json.loads(json.dumps(data))))
    except ValidationError:  # it is reported elsewhere
        return False


def _has_digits(data: Any) -> bool:
    if isinstance(data, dict):
        return any(map(_has_digits, data.values()))
    if isinstance(data, list):
        return any(map(_has_digits, data))
    return isinstance(data, Digits)
