"""What a body is given beside its input: the key, how much time is left, and where to report progress."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from perdure.contracts.keys import Key
from perdure.contracts.outcomes import NotDone
from perdure.contracts.sizes import ELSEWHERE, LARGEST_NOTE, size_of
from perdure.errors import InvalidInput

Note = Callable[[Any], Awaitable[None]]

USELESS = "it was of no use any more"
"""Why an effect that has expired is not called."""


def boot_clock() -> float:
    """Seconds that also count while the machine sleeps, where the system has such a clock.

    An event loop on virtual time brings a clock of its own.
    """
    virtual: Callable[[], float] | None = getattr(asyncio._get_running_loop(), "boot_clock", None)
    if virtual is not None:
        return virtual()
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


@dataclass(slots=True)
class Attempt:
    """One attempt of an effect, as its body sees it.

    Attributes:
        key: identity of the effect, the same for every attempt; hand it (or `key.token`) to the other side.
        number: which attempt this is, from 1.
        first_at: when the first attempt was begun, by the database's clock.
        progress: what the attempt before this one last gave to `heartbeat`, up to 0.8 of the heartbeat
            time-out old: a hint, not a record. None in the first.
        lookup_hint: what an earlier attempt noted for look-ups.
        headers: trace context to pass on to the other side.
        resources: what the app's `lifespan` yielded; None without one.

    Example:
        >>> from datetime import UTC
        >>> from perdure import Entity
        >>> key = Key.of(Entity("order", "17"), "charge")
        >>> attempt = Attempt(key, number=1, first_at=datetime(2030, 1, 1, tzinfo=UTC), ends_at=boot_clock() + 60)
        >>> 59 < attempt.remaining <= 60
        True
        >>> attempt.before_first_byte()
    """

    key: Key
    number: int
    first_at: datetime
    ends_at: float
    """When the call must have ended, on `boot_clock`."""
    progress: Any = None
    lookup_hint: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    resources: Any = None
    latest: Any = None
    """What was last given to `heartbeat`."""
    useless_at: float | None = None
    """From when on it is of no use any more, on `boot_clock`; None = it does not expire."""
    _note: Note | None = None

    @property
    def remaining(self) -> float:
        """Seconds until the call must have ended; the time-out to give to a client library."""
        return max(self.ends_at - boot_clock(), 0.0)

    def before_first_byte(self) -> None:
        """Call this immediately before the bytes leave that make the effect happen (invariant 5).

        Raises:
            NotDone: if the time is over, as after the process was frozen, or the effect has expired; nothing was sent.
        """
        if self.useless_at is not None and boot_clock() >= self.useless_at:
            raise NotDone(USELESS, counts=False)
        if self.remaining <= 0:
            raise NotDone("the attempt's time was over before the first byte left")

    def heartbeat(self, progress: Any) -> None:
        """Remember how far it is (JSON data); sent along with the next automatic heartbeat.

        Raises:
            InvalidInput: it has more bytes than `LARGEST_NOTE`.
        """
        self.latest = _small(self.key, "progress", progress)

    async def note(self, lookup_hint: Any) -> None:
        """Record what a look-up will need (JSON data), as soon as it is known.

        Raises:
            InvalidInput: it has more bytes than `LARGEST_NOTE`.
            DatabaseUnavailable: if it could not be recorded; before the first byte, raise `NotDone` from it.
        """
        _small(self.key, "lookup_hint", lookup_hint)
        if self._note is not None:
            await self._note(lookup_hint)
        self.lookup_hint = lookup_hint


@dataclass(frozen=True, slots=True)
class LookupContext:
    """What a look-up asks about.

    Attributes:
        key: identity of the effect.
        first_at: when its first attempt was begun, by the database's clock.
        attempts: how many attempts were begun.
        lookup_hint: what an attempt noted for look-ups.
        resources: what the app's `lifespan` yielded; None without one.

    Example:
        >>> from datetime import UTC
        >>> from perdure import Entity
        >>> key = Key.of(Entity("order", "17"), "charge")
        >>> LookupContext(key, first_at=datetime(2030, 1, 1, tzinfo=UTC), attempts=2).attempts
        2
    """

    key: Key
    first_at: datetime
    attempts: int = 1
    lookup_hint: Any = None
    resources: Any = None


def _small(key: Key, what: str, value: Any) -> Any:
    if (size := size_of(value)) > LARGEST_NOTE:
        raise InvalidInput(f"{key}: the {what} has {size} bytes, and may have {LARGEST_NOTE}: {ELSEWHERE}")
    return value
