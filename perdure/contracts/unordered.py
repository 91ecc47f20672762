"""Finds sets in inputs. The order of a set differs between workers, and so would the bytes of an input.

Other bytes under the same key end as `DifferentInput`, without a call (invariant 4).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import TypeAdapter

_SETS = ("set", "frozenset")
_NO_TYPES = ("metadata", "config", "cls", "ref", "default")
"""Parts of a pydantic core schema that describe no value."""


def set_in(adapter: TypeAdapter[Any]) -> str | None:
    """The place at which a value of the type may hold a set, such as `items.tags`; None if the type declares no set.

    A set with a serializer of its own is ignored, because the serializer can sort it.
    """
    found = next((path for kind, path in _kinds(adapter.core_schema, ()) if kind in _SETS), None)
    return None if found is None else ".".join(found) or "the whole"


def is_untyped(adapter: TypeAdapter[Any]) -> bool:
    """Whether the type leaves the type of some part open, as `Any` does."""
    return any(kind == "any" for kind, _ in _kinds(adapter.core_schema, ()))


def holds_set(data: Any) -> bool:
    """Whether `data`, as pydantic dumps it to Python, contains a set."""
    if isinstance(data, dict):
        return any(holds_set(each) for pair in data.items() for each in pair)
    if isinstance(data, (list, tuple)):
        return any(holds_set(each) for each in data)
    return isinstance(data, (set, frozenset))


def _kinds(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The type of each node of a core schema, with the names of the fields that lead there."""
    if isinstance(schema, (list, tuple)):
        for each in schema:
            yield from _kinds(each, path)
    elif isinstance(schema, dict):
        kind = schema.get("type")
        if kind in _SETS and "serialization" in schema:
            return
        if isinstance(kind, str):
            yield kind, path
        if str(kind).endswith("-field") and isinstance(schema.get("name"), str):  # of a dataclass
            path = (*path, schema["name"])
        for part, value in schema.items():
            if part == "fields" and isinstance(value, dict):
                for name, field in value.items():
                    yield from _kinds(field, (*path, name))
            elif part not in _NO_TYPES:
                yield from _kinds(value, path)
