"""Finds in the type of an input what Perdure cannot keep as it is: sets, and texts beside a `Private`.

The order of a set differs between workers, and so would the bytes of an input. Other bytes under the same key end as
`DifferentInput`, without a call (invariant 4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from perdure.errors import DeclarationError

if TYPE_CHECKING:  # an app that only starts lifecycles imports `pydantic_core` alone
    from pydantic import TypeAdapter

_SETS = ("set", "frozenset")
_AROUND = ("nullable", "default", "function-before", "function-after", "function-wrap")
_NO_TYPES = ("metadata", "config", "cls", "ref", "default")
"""Parts of a pydantic core schema that describe no value."""
PRIVATE = "perdure.private"
"""Metadata of the core schema of a `Private`."""


def set_in(adapter: TypeAdapter[Any]) -> str | None:
    """The place at which a value of the type may hold a set, such as `items.tags`; None if the type declares no set.

    A set with a serializer of its own is ignored, because the serializer can sort it.
    """
    return _first(adapter, lambda node: node["type"] in _SETS)


def refuse_text_beside_private(adapter: TypeAdapter[Any], what: str) -> None:
    """Raise DeclarationError if the type of `what` has a union of a `Private` and a text, such as `Private | str`.

    Pydantic would read a plain text as the `str`, which nothing seals, and a sealed one that is not for its entity too.
    """
    if where := _first(adapter, lambda node: {"private", "text"} <= {_reads(each) for each in node.get("choices", ())}):
        raise DeclarationError(
            f"{what} takes a Private or a plain text: {where}. Nothing seals a plain text: use Private"
        )


def is_untyped(adapter: TypeAdapter[Any]) -> bool:
    """Whether the type leaves the type of some part open, as `Any` does."""
    return _first(adapter, lambda node: node["type"] == "any") is not None


def holds_set(data: Any) -> bool:
    """Whether `data`, as pydantic dumps it to Python, contains a set."""
    if isinstance(data, dict):
        return any(holds_set(each) for pair in data.items() for each in pair)
    if isinstance(data, (list, tuple)):
        return any(holds_set(each) for each in data)
    return isinstance(data, (set, frozenset))


def _first(adapter: TypeAdapter[Any], holds: Callable[[dict[str, Any]], bool]) -> str | None:
    found = next((path for node, path in _nodes(adapter.core_schema, ()) if holds(node)), None)
    return None if found is None else ".".join(found) or "the whole"


def _reads(choice: Any) -> str:
    """What a choice of a union reads: `private`, `text`, or else pydantic's name of its type."""
    schema = choice[0] if isinstance(choice, tuple) else choice
    if schema.get("metadata", {}).get(PRIVATE):
        return "private"
    if schema["type"] in ("str", "any"):
        return "text"
    if schema["type"] == "chain":
        return _reads(schema["steps"][0])
    if schema["type"] in _AROUND:
        return _reads(schema["schema"])
    return str(schema["type"])


def _nodes(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    """The nodes of a core schema that have a type, with the names of the fields that lead there."""
    if isinstance(schema, (list, tuple)):
        for each in schema:
            yield from _nodes(each, path)
    elif isinstance(schema, dict):
        kind = schema.get("type")
        if kind in _SETS and "serialization" in schema:
            return
        if isinstance(kind, str):
            yield schema, path
        if str(kind).endswith("-field") and isinstance(schema.get("name"), str):  # of a dataclass
            path = (*path, schema["name"])
        for part, value in schema.items():
            if part == "fields" and isinstance(value, dict):
                for name, field in value.items():
                    yield from _nodes(field, (*path, name))
            elif part not in _NO_TYPES:
                yield from _nodes(value, path)
