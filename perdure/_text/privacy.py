"""Describes errors for records, logs and Temporal by their kind and place, without text that may quote data.

The message of an error of other code may quote the input, and with it addresses, numbers and names.
"""

from __future__ import annotations

import os
import socket
import traceback
from pathlib import Path
from typing import get_args

from pydantic_core import PydanticSerializationError, ValidationError
from pydantic_core.core_schema import ErrorType

from perdure._text.shown import one_line

LONGEST = 500
"""Characters of a description at most."""

# Errors of pydantic whose message may quote the data, or the text of an author's validator.
_QUOTING = frozenset(
    (
        *("value_error", "assertion_error", "union_tag_invalid", "get_attribute_error", "iteration_error"),
        *("mapping_type", "datetime_object_invalid", "url_parsing", "url_syntax_violation", "uuid_parsing"),
        *("json_invalid", "bytes_invalid_encoding"),
    )
)
# Classes of SQLSTATE whose messages name objects and conditions of the server, but quote no value.
_ABOUT_ITSELF = frozenset(("08", "25", "28", "3D", "3F", "40", "42", "53", "54", "55", "57", "58"))
_NAME_ERRORS = {value: name for name, value in vars(socket).items() if name.startswith("EAI_")}
_KNOWN = frozenset(get_args(ErrorType)) - _QUOTING


def describe(error: BaseException) -> str:
    """The error in one line: its kind, and its message if that quotes no data."""
    kind = type(error).__name__
    message = safe_message(error)
    if message is not None:
        return one_line(f"{kind}: {message}")[:LONGEST]
    state = getattr(error, "sqlstate", None)
    if isinstance(state, str):
        name = getattr(error, "constraint_name", None) or getattr(error, "column_name", None)
        return f"{kind} (SQLSTATE {state[:5]}{f', {name}' if name else ''})"[:LONGEST]
    frames = traceback.extract_tb(error.__traceback__)
    return kind + (f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "")


def reason(error: BaseException) -> str:
    """The message if it quotes no data, else the description."""
    return safe_message(error) or describe(error)


def safe_message(error: BaseException) -> str | None:
    """The message of one of Perdure's own errors, of the operating system's, or of PostgreSQL's about itself; None for
    any other error."""
    module = type(error).__module__
    room = module.partition(".")[0]
    if room == "perdure":
        return str(error)
    if room == "asyncpg" and error.args and not isinstance(error, ValueError):  # its ValueError quotes an argument
        state = getattr(error, "sqlstate", None)
        return str(error.args[0]).partition("\n")[0] if state is None or state[:2] in _ABOUT_ITSELF else None
    if isinstance(error, OSError) and module == "builtins" and error.errno is not None:
        return os.strerror(error.errno)
    if type(error) is socket.gaierror:
        return _NAME_ERRORS.get(error.errno or 0)
    return None


def describe_no_json(error: Exception) -> str:
    """Why data is no JSON, without the text of an author's serializer, which may quote the data."""
    message = str(error)
    return ": ".join(message.split(": ")[:2]) if isinstance(error, PydanticSerializationError) else message


def describe_invalid(error: ValidationError) -> str:
    """The place of the first problem, and the expected value, without the given value."""
    first = error.errors(include_input=False, include_url=False)[0]
    kind, where = first["type"], first["loc"]
    if kind == "extra_forbidden":  # the last part is a name from the data
        where = (*where[:-1], "*")
    parts = [part if isinstance(part, int) or part.isidentifier() else "*" for part in where]
    shown = ".".join(str(part) for part in parts) or "the whole"
    own = kind in _KNOWN or kind.startswith("private_")  # the latter are those of `Private`
    return f"{shown}: {first['msg'] if own else kind.replace('_', ' ')}"


def format_error(error: BaseException) -> str:
    """The traceback of an error and of its causes, the first cause on top, each described by `describe`."""
    shown: list[str] = []
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        lines = "".join(traceback.format_tb(each.__traceback__))
        members = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        within = "".join(f"\n  {describe(member)}" for member in members)
        shown.append(f"{lines}{describe(each)}{within}")
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
    return "\n\nThe error above led to this one:\n\n".join(reversed(shown))
