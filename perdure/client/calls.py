"""The calls of SQL functions that a client makes, for every kind of connection.

Wrong arguments are refused here, before an error of PostgreSQL would end the app's transaction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from perdure._crypto.private import SEALING
from perdure._text.privacy import describe_no_json
from perdure.contracts.keys import Entity
from perdure.contracts.sizes import ELSEWHERE, LARGEST
from perdure.errors import InvalidInput

_TYPES = {"input": "jsonb", "payload": "jsonb", "receipt": "jsonb", "not_before": "timestamptz", "priority": "integer"}
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


@dataclass(frozen=True, slots=True)
class Call:
    """A call of one function of the schema `perdure`.

    Attributes:
        entity: the entity that the call is about.
        arguments: by the names of the parameters. All are text, because drivers convert JSON and times differently.
    """

    function: str
    entity: Entity
    arguments: Mapping[str, str | None]

    def sql(self, placeholder: str) -> str:
        """The statement. `placeholder` is the driver's, with `{}` for a parameter's number, `{name}` for its name."""
        given = ", ".join(
            f"{name} => {_typed(name, placeholder.format(number, name=name))}"
            for number, name in enumerate(self.arguments, 1)
        )
        return f"select perdure.{self.function}({given})"

    @property
    def values(self) -> list[str | None]:
        """The values of the statement's parameters, in order."""
        return list(self.arguments.values())

    def also(self, **more: str | None) -> Call:
        """The same call with more arguments. The function's default applies to an argument that is None."""
        given = {name: value for name, value in more.items() if value is not None}
        return replace(self, arguments={**self.arguments, **given})

    def __str__(self) -> str:
        return f"{self.function} of {self.entity}"


def call(function: str, entity: Entity, **required: str | None) -> Call:
    """A call for an entity."""
    return Call(function, entity, {"lifecycle": entity.lifecycle, "entity_id": entity.id, **required})


def as_json(whose: str, what: str, given: Any) -> str:
    """`given` as JSON text that PostgreSQL can store. It is a Pydantic model, a dataclass or JSON data.

    Raises:
        InvalidInput: `given` is none of these, or too large for Temporal.
    """
    try:
        text = json.dumps(given, default=_plain, ensure_ascii=False, allow_nan=False)
        text.encode()  # a lone surrogate
    except (PydanticSerializationError, TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{whose}: the {what} is no JSON: {describe_no_json(error)}") from None
    if (size := len(text.encode())) > LARGEST:
        raise InvalidInput(f"{whose}: the {what} has {size} bytes, and Temporal accepts {LARGEST}: {ELSEWHERE}")
    if _NUL.search(text):
        raise InvalidInput(f"{whose}: PostgreSQL can't store the {what}: it has a character NUL (\\u0000)")
    return text


def instant(whose: str, when: datetime | None) -> str | None:
    """`not_before` as text, in UTC.

    Raises:
        InvalidInput: the time has no time zone, or is outside the years 1 to 9999 in UTC.
    """
    if when is not None and when.tzinfo is None:
        raise InvalidInput(f"{whose}: not_before={when} has no time zone: give it one, such as datetime.now(UTC) has")
    try:
        return None if when is None else when.astimezone(UTC).isoformat()
    except OverflowError:
        raise InvalidInput(f"{whose}: not_before={when} lies outside the years 1 to 9999 in UTC") from None


def rank(whose: str, priority: int) -> str | None:
    """`priority` as text; None for the default.

    Raises:
        InvalidInput: the priority is not valid.
    """
    if priority not in range(1, 6):
        raise InvalidInput(f"{whose}: priority={priority!r}: give 1 (first) to 5 (last)")
    return None if priority == 3 else str(priority)


def message(whose: str, message_id: str | None) -> str | None:
    """`message_id` as it is given.

    Raises:
        InvalidInput: it begins as the ids of Perdure's own messages do.
    """
    if str(message_id).startswith("perdure-"):
        raise InvalidInput(
            f"{whose}: message_id={message_id!r}: ids that begin with perdure- are reserved: give another one"
        )
    return message_id


def _plain(value: Any) -> Any:
    if isinstance(value, (set, frozenset, bytes)):
        raise TypeError(f"{type(value).__name__} has no counterpart there")
    return to_jsonable_python(value, inf_nan_mode="constants", context=SEALING)


def _typed(name: str, placeholder: str) -> str:
    text = f"cast({placeholder} as text)"
    return f"cast({text} as {_TYPES[name]})" if name in _TYPES else text
