"""Checks the size of orders and memos: a larger one would make the server end the run, or fail its tasks for ever.

An order that is too large fails the workflow task before anything is written. Later code with smaller data continues.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from temporalio import workflow

from perdure.contracts.keys import Entity
from perdure.contracts.sizes import ELSEWHERE, LARGEST, size_of
from perdure.errors import TooLarge

_PARTS = ("input", "snapshot", "memory", "receipt")


def check_size(entity: Entity, what: str, order: Any) -> None:
    """Refuse an order, or a memo, that Temporal would not accept.

    Raises:
        TooLarge: the order is too large. The message names the entity and the parts with their sizes.
    """
    if workflow.unsafe.is_replaying() or (size := size_of(order)) <= LARGEST:
        return
    parts = ", ".join(f"{name} {bytes}" for name, bytes in _parts(order).items() if bytes > LARGEST // 100)
    raise TooLarge(
        f"{entity}: {what} has {size} bytes, and Temporal accepts {LARGEST} (bytes by part: {parts}): {ELSEWHERE}"
    )


def _parts(order: Any) -> dict[str, int]:
    """The sizes of the author's own parts of an order."""
    found: dict[str, int] = {}
    fields = dict(order) if isinstance(order, BaseModel) else order
    for name, value in fields.items():
        if name in _PARTS:
            found[name] = found.get(name, 0) + size_of(value)
        elif isinstance(value, (BaseModel, dict)):
            for part, size in _parts(value).items():
                found[part] = found.get(part, 0) + size
    return found
