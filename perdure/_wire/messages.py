"""A message from the outbox, as the signal that carries it holds it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel


class Message(BaseModel):
    """One message.

    Attributes:
        ordinal: its place in the order of the entity's messages, from 1, without gaps.
        id: under which the app knows it.
        kind: `signal` = for the author's handler `name`; `cancel` = the payload is an `OperatorRequest`.
        payload: JSON data; None = nothing is given to a handler that takes nothing.
    """

    ordinal: int
    id: str
    kind: Literal["signal", "cancel"]
    name: str
    payload: Any = None
