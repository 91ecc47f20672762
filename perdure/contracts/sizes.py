"""The sizes of values that Temporal accepts, in bytes of JSON.

Temporal takes 2 MiB in one piece (`limit.blobSize.error`). These limits leave room for encryption and the envelope of a
payload.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import to_json

LARGEST = 2_000_000
"""Bytes of an input, of a message's payload, and of the arguments of one activity: the effect's input and the
snapshot."""
LARGEST_RECEIPT = 1_800_000
"""Bytes of a receipt, and of the result of a step. The rest is for look-up hint and progress."""
LARGEST_NOTE = 90_000
"""Bytes of a look-up hint, and of progress."""

ELSEWHERE = "keep the rest in a table of yours, and give its key"


def size_of(value: Any) -> int:
    """Bytes of JSON data, or of a Pydantic model, as JSON."""
    try:
        return len(to_json(value))
    except ValueError:  # a lone surrogate
        return len(json.dumps(value, default=str).encode())
