"""How large what goes through Temporal may be: in bytes of JSON, as Temporal gets it.

Temporal takes 2 MiB in one piece (`limit.blobSize.error`). Encryption and the envelope around a payload need less than
what these limits leave.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import to_json

LARGEST = 2_000_000
"""Bytes of an input, of a message's payload, and of all that one call of an activity is given: the effect's input, and
the snapshot."""
LARGEST_RECEIPT = 1_800_000
"""Bytes of a receipt, and of what a step returns: look-up hint and progress go beside it."""
LARGEST_NOTE = 90_000
"""Bytes of a look-up hint, and of progress."""

ELSEWHERE = "keep the rest in a table of yours, and give its key"


def size_of(value: Any) -> int:
    """Bytes of `value` as JSON: of JSON data, or of what a Pydantic model holds."""
    try:
        return len(to_json(value))
    except ValueError:  # a lone surrogate
        return len(json.dumps(value, default=str).encode())
