"""Faults that the embedded mail server can be ordered to show, each at one moment of a conversation."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum


class At(StrEnum):
    """The moment of a fault: in place of the reply to this command, except where noted."""

    GREETING = "greeting"
    EHLO = "ehlo"
    STARTTLS = "starttls"
    AUTH = "auth"
    MAIL = "mail"
    RCPT = "rcpt"
    DATA = "data"
    CONTENT = "content"
    """When the first line of the content has come: before the final dot."""
    END = "end"
    """When the final dot has come: the mail is not kept."""
    ACCEPTED = "accepted"
    """When the mail is kept and logged, before the reply."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What to do in place of the normal reply: give another one, hang up, both, or (neither) fall silent.

    Attributes:
        reply: one line, or several joined by CR LF; need not be SMTP.
        close: hang up, after the reply if there is one.
    """

    reply: str = ""
    close: bool = False


class Orders:
    """Which fault happens when, and whether it has happened."""

    def __init__(self) -> None:
        self._standing: dict[At, tuple[Fault, int | None]] = {}
        self._happened: defaultdict[At, asyncio.Event] = defaultdict(asyncio.Event)

    def order(self, at: At, fault: Fault, *, times: int | None = None) -> None:
        """Let `fault` happen at `at`, `times` times (None = always), instead of an earlier order."""
        self._standing[at] = (fault, times)
        self._happened[at].clear()

    def withdraw(self) -> None:
        """Forget all orders."""
        self._standing.clear()

    def is_due(self, at: At) -> bool:
        """Whether a fault is ordered there."""
        return at in self._standing

    def take(self, at: At) -> Fault | None:
        """The fault to show now, counted as shown."""
        if at not in self._standing:
            return None
        fault, times = self._standing[at]
        if times is not None:
            self._standing[at] = (fault, times - 1)
            if times <= 1:
                del self._standing[at]
        self._happened[at].set()
        return fault

    def has_happened(self, at: At) -> bool:
        """Whether a fault has begun there."""
        return self._happened[at].is_set()

    async def happened(self, at: At) -> None:
        """Wait until a fault has begun there."""
        await self._happened[at].wait()
