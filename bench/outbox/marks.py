"""When each run had its first workflow task, on the clock of the process that committed its row."""

from __future__ import annotations

import time

began: dict[str, float] = {}


def mark(entity_id: str) -> None:
    """It has begun; only the first time counts."""
    began.setdefault(entity_id, time.monotonic())
