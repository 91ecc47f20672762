"""JSON that a history, PostgreSQL and later readers can store."""

from __future__ import annotations

import json
import math
import re
from typing import Any

DEEPEST = 64
"""Levels of nesting. Later readers fail at a few hundred."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def parsed(data: bytes) -> Any:
    """The JSON data in `data`, which may begin with a byte order mark.

    Raises:
        ValueError: it holds none, or none that can be kept.
    """
    try:
        value = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if flaw := flaw_of(value):
        raise ValueError(flaw)
    return value


def flaw_of(value: Any) -> str | None:
    """Why `value`, as a JSON parser gave it, can't be kept; None if it can."""
    waiting = [(value, 1)]
    while waiting:
        one, level = waiting.pop()
        if level > DEEPEST:
            return f"it is nested more than {DEEPEST} levels deep"
        if isinstance(one, str) and _UNSTORABLE.search(one):
            return "a text in it holds NUL or half a character, which PostgreSQL can't store"
        if isinstance(one, float) and not math.isfinite(one):
            return "it holds NaN or an infinity, which JSON does not have"
        if isinstance(one, dict):
            waiting += [(each, level + 1) for pair in one.items() for each in pair]
        elif isinstance(one, list):
            waiting += [(each, level + 1) for each in one]
    return None
