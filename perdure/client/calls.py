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
from perdure.contracts.sizes import DEEPEST, ELSEWHERE, LARGEST, TOO_DEEP, is_too_deep
from perdure.errors import InvalidInput

_TYPES = {"input": "jsonb", "payload": "jsonb", "receipt": "jsonb", "not_before": "timestamptz", "priority": "integer"}
_SIGNAL = re.compile(r"(?!perdure-|__temporal)[^\x00-\x1f\x7f-\x9f]{1,200}")
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
        InvalidInput: `given` is none of these, too large for Temporal, or nested too deep.
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
    if text.count("[") + text.count("{") >= DEEPEST and is_too_deep(json.loads(text)):
        raise InvalidInput(f"{whose}: the {what} {TOO_DEEP}")
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


def rank(whose: str, priority: object) -> str | None:
    """`priority` as text; None for the default.

    Raises:
        InvalidInput: the priority is not valid.
    """
    if not isinstance(priority, int) or isinstance(priority, bool) or priority not in range(1, 6):
        raise InvalidInput(f"{whose}: priority={priority!r}: give 1 (first) to 5 (last)")
    return None if priority == 3 else str(int(priority))


def message(whose: str, message_id: str | None) -> str | None:
    """`message_id` as it is given.

    Raises:
        InvalidInput: it is empty or too long, or begins as the ids of Perdure's own messages do.
    """
    if str(message_id).startswith("perdure-"):
        raise InvalidInput(
            f"{whose}: message_id={message_id!r}: ids that begin with perdure- are reserved: give another one"
        )
    if message_id is not None:
        check_text(whose, "message_id", message_id, 1, 200, "bytes")
    return message_id


def signal_name(whose: str, name: str) -> str:
    """The name of a signal, as it is given.

    Raises:
        InvalidInput: no signal can have it.
    """
    if not _SIGNAL.fullmatch(name):
        raise InvalidInput(f"{whose}: {name[:60]!r} can't be the name of a signal: give that of a handler")
    check_text(whose, "the name of the signal", name)
    return name


def person(whose: str, by: str, note: str) -> dict[str, str]:
    """Who makes a request and why, as arguments of a call.

    Raises:
        InvalidInput: the name is missing, or one of the two is too long.
    """
    check_text(whose, "by", by, 1, 200)
    check_text(whose, "note", note, 0, 2000)
    return {"made_by": by, "note": note}


def check_text(
    whose: str, what: str, given: object, least: int = 0, most: int | None = None, unit: str = "characters"
) -> None:
    """Check an argument that is text.

    Raises:
        InvalidInput: PostgreSQL cannot store it, or it is shorter or longer than allowed.
    """
    text = "" if given is None else str(given)
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{whose}: PostgreSQL can't store {what}: it has a lone surrogate") from None
    if "\0" in text:
        raise InvalidInput(f"{whose}: PostgreSQL can't store {what}: it has a character NUL")
    size = len(encoded) if unit == "bytes" else len(text)
    if size < least or (most is not None and size > most):
        raise InvalidInput(f"{whose}: {what} has {size} {unit}: give {least} to {most}")


def _plain(value: Any) -> Any:
    if isinstance(value, (set, frozenset, bytes)):
        raise TypeError(f"{type(value).__name__} has no counterpart there")
    return to_jsonable_python(value, inf_nan_mode="constants", context=SEALING)


def _typed(name: str, placeholder: str) -> str:
    text = f"cast({placeholder} as text)"
    return f"cast({text} as {_TYPES[name]})" if name in _TYPES else text
