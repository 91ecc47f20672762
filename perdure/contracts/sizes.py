"""The sizes of values that Temporal accepts, in bytes of JSON, and their nesting.

Temporal takes 2 MiB in one piece (`limit.blobSize.error`). These limits leave room for encryption and the envelope of a
payload. PostgreSQL keeps JSON that Python cannot read back: Pydantic reads 200 levels, and `json` some 900.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import to_json

from perdure.contracts.digits import number
from perdure.contracts.dumping import lost_in
from perdure.errors import InvalidInput

LARGEST = 2_000_000
"""Bytes of an input, of a message's payload, and of the arguments of one activity: the effect's input and the
snapshot."""
LARGEST_RECEIPT = 1_800_000
"""Bytes of a receipt, and of the result of a step. The rest is for look-up hint and progress."""
LARGEST_NOTE = 90_000
"""Bytes of a look-up hint, and of progress."""
DEEPEST = 100
"""The level at which JSON data has no value any more; the outermost value is level 0. The rest is for the envelope. The
SQL function `check_payload` has the same limit."""

ELSEWHERE = "keep the rest in a table of yours, and give its key"
TOO_DEEP = f"is nested {DEEPEST} levels deep or deeper: {ELSEWHERE}"


def size_of(value: Any) -> int:
    """Bytes of JSON data, or of a Pydantic model, as JSON."""
    try:
        return len(to_json(value))
    except ValueError:  # a lone surrogate
        return len(json.dumps(value, default=str).encode())


def is_too_deep(data: Any) -> bool:
    """Whether JSON data has a value at the level `DEEPEST`."""
    level = [data]
    for _ in range(DEEPEST):
        containers = [each for each in level if isinstance(each, (dict, list, tuple))]
        if not containers:
            return False
        level = [inner for each in containers for inner in (each.values() if isinstance(each, dict) else each)]
    return bool(level)


def unfit(data: Any, largest: int) -> str | None:
    """Why JSON data cannot be kept: it has more bytes than `largest`, is nested too deep, or has a number that
    JSON does not have. None if it can."""
    if (size := size_of(data)) > largest:
        return f"has {size} bytes, and may have {largest}: {ELSEWHERE}"
    if is_too_deep(data):
        return TOO_DEEP
    lost = lost_in(data, data)
    return lost and f"can't be kept: {lost}"


def parsed(text: str | None) -> Any:
    """The data of JSON text that PostgreSQL has kept; None = it has kept none. A `Decimal` that is read from it has all
    digits.

    Raises:
        InvalidInput: Python cannot read it, or it is nested too deep.
    """
    if text is None:
        return None
    try:
        data = json.loads(text, parse_float=number)
    except RecursionError:
        raise InvalidInput(f"its JSON {TOO_DEEP}") from None
    except ValueError:  # PostgreSQL has checked the rest
        raise InvalidInput("its JSON has an integer with more digits than Python reads") from None
    if is_too_deep(data):
        raise InvalidInput(f"its JSON {TOO_DEEP}")
    return data
