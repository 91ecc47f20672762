"""The second argument of each body: `Attempt` for an effect, `LookupContext` for a look-up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic_core import to_json

from perdure.contracts.keys import Key
from perdure.contracts.outcomes import NotDone
from perdure.contracts.sizes import LARGEST_NOTE, unfit
from perdure.errors import InvalidInput

Note = Callable[[Any], Awaitable[None]]

USELESS = "it was of no use any more"
"""The reason that is recorded if an effect has expired and is not called."""


def boot_clock() -> float:
    """Seconds of a clock that continues while the machine sleeps, if the system has one.

    An event loop on virtual time has its own clock.
    """
    virtual: Callable[[], float] | None = getattr(asyncio._get_running_loop(), "boot_clock", None)
    if virtual is not None:
        return virtual()
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


@dataclass(slots=True)
class Attempt:
    """One attempt of an effect, for its body.

    Attributes:
        key: identity of the effect, the same for every attempt. Give `key` or `key.token` to the other side.
        number: number of this attempt, from 1.
        first_at: time at which the first attempt began, by the database's clock. Use it where a time stamp must be the
            same in each attempt.
        progress: the last value that the previous attempt passed to `heartbeat`. It may be up to 0.8 of the heartbeat
            time-out old. None in the first attempt.
        lookup_hint: the data that an earlier attempt recorded by `note`.
        headers: trace context, to send along with the request.
        resources: the value that the app's `lifespan` yielded; None without one.

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
    """Time on `boot_clock` at which the call must have ended."""
    progress: Any = None
    lookup_hint: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    resources: Any = None
    latest: Any = None
    """The last value that was passed to `heartbeat`."""
    useless_at: float | None = None
    """Time on `boot_clock` at which the effect expires; None = never."""
    _note: Note | None = None
    _clock: Callable[[], float] = boot_clock
    """Stands still in a rehearsal."""

    @property
    def remaining(self) -> float:
        """Seconds until the call must have ended. Use it as the time-out of the client library."""
        return max(self.ends_at - self._clock(), 0.0)

    def before_first_byte(self) -> None:
        """Call this immediately before the bytes leave that cause the effect (invariant 5).

        Raises:
            NotDone: the time is over, for example after the process was frozen, or the effect has expired. Nothing was
                sent.
        """
        if self.useless_at is not None and self._clock() >= self.useless_at:
            raise NotDone(USELESS, counts=False)
        if self.remaining <= 0:
            raise NotDone("the attempt's time was over before the first byte left")

    def heartbeat(self, progress: Any) -> None:
        """Store how far the body is, as JSON data. The next automatic heartbeat sends it.

        Raises:
            InvalidInput: it is no JSON data, has more bytes than `LARGEST_NOTE`, or is nested too deep.
        """
        self.latest = _small(self.key, "progress", progress)

    async def note(self, lookup_hint: Any) -> None:
        """Record JSON data that a look-up will need, as soon as you have it.

        Raises:
            InvalidInput: it is no JSON data, has more bytes than `LARGEST_NOTE`, or is nested too deep.
            DatabaseUnavailable: the data could not be recorded. Before the first byte, raise `NotDone` from it: any
                other exception means in doubt.
        """
        _small(self.key, "lookup_hint", lookup_hint)
        if self._note is not None:
            await self._note(lookup_hint)
        self.lookup_hint = lookup_hint


@dataclass(frozen=True, slots=True)
class LookupContext:
    """The effect that a look-up searches for.

    Attributes:
        key: identity of the effect.
        first_at: time at which its first attempt began, by the database's clock.
        attempts: number of attempts that began.
        lookup_hint: the data that an attempt recorded by `note`.
        resources: the value that the app's `lifespan` yielded; None without one.

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
    try:
        to_json(value)
    except ValueError as error:
        raise InvalidInput(f"{key}: the {what} is no JSON data: {type(error).__name__}") from None
    if why := unfit(value, LARGEST_NOTE):
        raise InvalidInput(f"{key}: the {what} {why}")
    return value
