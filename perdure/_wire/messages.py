"""A message from the outbox, as the argument of the signal that carries it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel


class Message(BaseModel):
    """One message.

    Attributes:
        ordinal: the message's place in the order of the entity's messages, from 1, without gaps.
        id: the app's id of the message.
        kind: `signal` = for the author's handler `name`; `cancel` = the payload is an `OperatorRequest`.
        payload: JSON data; None = for a handler without an argument.
        read_at: time at which the relay has read it, by the database's clock; it was sent later. None = an older
            release has sent it.
    """

    ordinal: int
    id: str
    kind: Literal["signal", "cancel"]
    name: str
    payload: Any = None
    read_at: datetime | None = None
