"""Dumps values of the author's types as JSON data, and loads them from it.

Pydantic writes some values in another way than its reader could undo. JSON has no Infinity and no NaN: null stands in
their place. A `SecretStr` becomes asterisks. A field with an alias is written by its name, and read by its alias alone.
A subclass is written as the declared class, without the fields of its own.
"""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from pydantic_core import SchemaSerializer, ValidationError, from_json, to_json

from perdure._text.privacy import describe_invalid
from perdure.errors import InvalidInput

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

_NO_NUMBER = "is Infinity or NaN, which JSON does not have: give None, or a text"
_MASK = "*" * 10  # of `SecretBytes`, whose text is another
_MASKED = "is a secret that Pydantic writes as asterisks: declare `Private`, or a serializer that writes the value"
_NO_TEXT = 'has bytes that are no UTF-8: declare ser_json_bytes="base64" and val_json_bytes="base64"'
_UNWRITTEN = "is not written: declare the class that has this field, or a union, and leave out exclude=True"
_UNREADABLE = "its type does not read what it writes"
_READABLE = "let it, as with serialize_by_alias=True"
_PLAIN = (str, int, type(None))
_MANY = (list, tuple, set, frozenset, deque)


class Reader(Protocol):
    """Reads the data of a type: a `TypeAdapter`, or the validator of a model."""

    def validate_python(self, data: Any, /, *, context: Any = None) -> Any:
        """The value that Python data stands for."""

    def validate_json(self, data: Any, /, *, context: Any = None) -> Any:
        """The value that JSON text stands for."""


def dump(
    serializer: SchemaSerializer,
    value: Any,
    *,
    reader: Reader | None = None,
    context: Any = None,
    warnings: bool = True,
) -> Any:
    """`value` as JSON data.

    Args:
        reader: makes sure that the type reads what it writes; None = do not.

    Raises:
        InvalidInput: a number in it is Infinity or NaN, and the type does not declare `ser_json_inf_nan="strings"`; or
            bytes are no text; or a secret would become asterisks; or the type does not write a field, as one of a
            subclass; or does not read what it writes. The message has the place.
    """
    data = _dumped(serializer, value, context, warnings)
    if reader is not None:
        try:
            found = load(reader, data)
        except ValidationError as error:
            raise InvalidInput(f"{_UNREADABLE} ({describe_invalid(error)}): {_READABLE}") from None
        if not _equal(found, value):
            if unwritten := _unwritten_in(value, found):
                raise InvalidInput(unwritten)
            # A set may be written in another order, and an object need not be comparable.
            if _dumped(serializer, found, context, warnings) != data:
                raise InvalidInput(f"{_UNREADABLE}, or not all of it: {_READABLE}")
    return data


def _unwritten_in(value: Any, found: Any, place: str = "") -> str | None:
    """The place of the first field of a model in `value` that was not written, so that `found`, which was read from the
    data, does not have it; None if every field was."""
    parts, read, fields = _parts(value), _parts(found), _fields(value)
    for name, part in parts.items():
        here = _inner_place(place, name)
        if name not in read:
            if fields is not None and _fields(found) is not None:  # an untyped model is read as a dict
                return f"{here} {_UNWRITTEN}"
        elif _is_excluded((fields or {}).get(name)) and not _equal(read[name], part):
            return f"{here} {_UNWRITTEN}"
        elif unwritten := _unwritten_in(part, read[name], here):
            return unwritten
    return None


def _parts(value: Any) -> dict[Any, Any]:
    """The values that a value of several consists of, by their names or places."""
    if isinstance(value, dict):
        return value
    if isinstance(value, (list, tuple, deque)):
        return dict(enumerate(value))
    own = {name: getattr(value, name) for name in _fields(value) or () if hasattr(value, name)}
    return {**own, **(getattr(value, "__pydantic_extra__", None) or {})}


def _fields(value: Any) -> dict[str, Any] | None:
    """The declared fields of a model or dataclass, by their names; None of another value."""
    if dataclasses.is_dataclass(value) and not hasattr(type(value), "__pydantic_fields__"):
        return {each.name: each.default for each in dataclasses.fields(value)}
    return getattr(type(value), "__pydantic_fields__", None)


def _is_excluded(field: Any) -> bool:
    return bool(getattr(field, "exclude", None) or getattr(field, "exclude_if", None))


def _equal(found: Any, value: Any) -> bool:
    try:
        return bool(found == value)
    except Exception:  # of a type of the author's, such as an array that compares its elements
        return False


def _dumped(serializer: SchemaSerializer, value: Any, context: Any, warnings: bool) -> Any:
    try:
        data = serializer.to_python(value, mode="json", context=context, warnings=warnings)
    except UnicodeDecodeError:
        if place := _bytes_in(value):
            raise InvalidInput(f"{place} {_NO_TEXT}") from None
        raise
    try:
        plain = serializer.to_python(value, context=context, warnings=False)  # of `Any`, the data has None already
    except Exception:  # a serializer of the author's may be for JSON alone
        plain = data
    if lost_in(plain, data) is None:
        return data
    data = from_json(serializer.to_json(value, context=context, warnings=warnings))  # applies `ser_json_inf_nan`
    if lost := lost_in(plain, data):
        raise InvalidInput(lost)
    return data


@overload
def load(reader: TypeAdapter[T], data: Any, *, context: Any = None) -> T: ...
@overload
def load(reader: Reader, data: Any, *, context: Any = None) -> Any: ...
def load(reader: Reader, data: Any, *, context: Any = None) -> Any:
    """The value of the author's type that `data`, its JSON data, stands for.

    Pydantic reads the data as Python values first, which is cheaper and decides as every run has decided so far: as
    JSON, text for `datetime | str` would become a time. But a strict type takes neither text for a time nor a list for
    a tuple unless it is read as JSON.

    Raises:
        ValidationError: the data does not fit.
    """
    try:
        return reader.validate_python(data, context=context)
    except ValidationError:
        text = to_json(data)
    return reader.validate_json(text, context=context)


def _bytes_in(value: Any, place: str = "") -> str | None:
    """The place of the first bytes in `value` that are no text; None if there are none."""
    if isinstance(value, bytes):
        return None if value.decode(errors="replace").encode() == value else place or "the whole"
    inner = (_bytes_in(part, _inner_place(place, name)) for name, part in _parts(value).items())
    return next(filter(None, inner), None)


def lost_in(plain: Any, data: Any, place: str = "") -> str | None:
    """The place of the first value in `plain` that `data`, its JSON data, has lost, and what is lost; None if nothing
    is."""
    if isinstance(plain, float):
        is_lost = not math.isfinite(plain) and (data is None or isinstance(data, float))
        return f"{place or 'the whole'} {_NO_NUMBER}" if is_lost else None
    if hasattr(plain, "get_secret_value"):
        return f"{place or 'the whole'} {_MASKED}" if data and data in (str(plain), _MASK) else None
    inner: Iterable[tuple[Any, Any, Any]] = ()
    if isinstance(plain, dict) and isinstance(data, dict):
        inner = zip(plain, plain.values(), data.values(), strict=False)
    elif isinstance(plain, _MANY) and isinstance(data, (list, tuple)):
        inner = zip(range(len(plain)), plain, data, strict=False)
    for name, value, dumped in inner:
        if not isinstance(value, _PLAIN) and (lost := lost_in(value, dumped, _inner_place(place, name))):
            return lost
    return None


def _inner_place(place: str, name: Any) -> str:
    part = str(name) if isinstance(name, int) or (isinstance(name, str) and name.isidentifier()) else "*"
    return f"{place}.{part}".lstrip(".")
