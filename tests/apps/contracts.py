"""Contracts of the tests' bookings: one effect per doubt policy, as an activity and inline."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from perdure import AskFirst, Dedupe, Effect, Escalate, Lookup, Repeat, RetryPolicy

TIMEOUT = timedelta(seconds=float(os.environ.get("BOOKING_TIMEOUT", "6")))
"""Of each call. A busy machine must not reach it, and a test that loses a worker waits for it."""
QUICK = RetryPolicy(initial_interval=timedelta(seconds=0.1), maximum_interval=timedelta(seconds=1))


class Booking(BaseModel):
    """What to do at the counterparty."""

    what: str = "x"
    seconds: float = 0.0


class Ticket(BaseModel):
    """The counterparty's receipt."""

    number: int


def _policies(inline: bool) -> dict[str, Effect[Booking, Ticket]]:
    tail = "-inline" if inline else ""
    find = Lookup[Booking, Ticket](f"find-booking{tail}", timeout=timedelta(seconds=5), inline=inline)
    policies: dict[str, Any] = {
        "lookup": AskFirst(find, visibility_delay=timedelta(seconds=0.5), every=timedelta(seconds=0.3)),
        "dedupe": Dedupe(window=timedelta(seconds=120), margin=timedelta(seconds=1)),
        "repeat": Repeat(),
        "escalate": Escalate(),
    }
    return {
        name: Effect[Booking, Ticket](
            f"do-{name}{tail}",
            timeout=TIMEOUT,
            doubt=doubt,
            retry=QUICK,
            inline=inline,
        )
        for name, doubt in policies.items()
    }


REGULAR = _policies(inline=False)
INLINE = _policies(inline=True)


class March(BaseModel):
    """A long way in small steps."""

    steps: int = 1000


class Marched(BaseModel):
    """How it went: `again` = steps that were made more than once, counted from the last heartbeat."""

    steps: int
    began_at: int
    again: int


MARCH = Effect[March, Marched](
    "march", timeout=timedelta(seconds=120), doubt=Repeat(), retry=QUICK, heartbeat_timeout=timedelta(seconds=3)
)
