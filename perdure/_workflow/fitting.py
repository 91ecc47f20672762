"""Checks the size and the nesting of orders and memos.

A larger one would make the server end the run, or fail its tasks for ever, and one that is nested deeper could not be
read back. Such an order fails the workflow task before anything is written. Later code with smaller data continues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from temporalio import workflow

from perdure.contracts.keys import Entity
from perdure.contracts.sizes import ELSEWHERE, LARGEST, TOO_DEEP, is_too_deep, size_of
from perdure.errors import TooLarge

_PARTS = {each: each for each in ("input", "snapshot", "memory", "receipt")} | {"given": "input of an effect"}
"""The author's parts, by the names that orders have for them."""


def check_size(entity: Entity, what: str, order: Any) -> None:
    """Refuse an order, or a memo, that Temporal would not accept.

    Raises:
        TooLarge: the order is too large, and the message names the parts with their sizes; or a part is nested too
            deep.
    """
    if workflow.unsafe.is_replaying():
        return
    for name, part in _parts(order):
        if is_too_deep(part):
            raise TooLarge(f"{entity}: the {name} of {what} {TOO_DEEP}")
    if (size := size_of(order)) <= LARGEST:
        return
    bytes_of: Counter[str] = Counter()
    for name, part in _parts(order):
        bytes_of[name] += size_of(part)
    parts = ", ".join(f"{name} {bytes}" for name, bytes in bytes_of.items() if bytes > LARGEST // 100)
    raise TooLarge(
        f"{entity}: {what} has {size} bytes, and Temporal accepts {LARGEST} (bytes by part: {parts}): {ELSEWHERE}"
    )


def _parts(order: Any) -> Iterator[tuple[str, Any]]:
    """The author's own parts of an order, with their names."""
    for name, value in (dict(order) if isinstance(order, BaseModel) else order).items():
        if name in _PARTS:
            yield _PARTS[name], value
        elif isinstance(value, (BaseModel, dict)):
            yield from _parts(value)
