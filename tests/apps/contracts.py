"""Contracts of the tests' errands: one effect per doubt policy, as an activity and inline."""

from __future__ import annotations

import os
from typing import Any

from pydantic import BaseModel

from perdure import Dedupe, Effect, Escalate, Find, Lookup, Repeat, Retry, seconds

TIMEOUT = seconds(float(os.environ.get("ERRAND_TIMEOUT", "6")))
"""Of each call. A busy machine must not reach it, and a test that loses a worker waits for it."""
QUICK = Retry(initial=seconds(0.1), cap=seconds(1))


class Errand(BaseModel):
    """What to do at the counterparty."""

    what: str = "x"
    seconds: float = 0.0


class Ticket(BaseModel):
    """The counterparty's receipt."""

    number: int


def _policies(inline: bool) -> dict[str, Effect[Errand, Ticket]]:
    tail = "-inline" if inline else ""
    find = Find[Errand, Ticket](f"find-errand{tail}", timeout=seconds(5), inline=inline)
    policies: dict[str, Any] = {
        "lookup": Lookup(find, settle=seconds(0.5), every=seconds(0.3)),
        "dedupe": Dedupe(window=seconds(120), margin=seconds(1)),
        "repeat": Repeat(),
        "escalate": Escalate(),
    }
    return {
        name: Effect[Errand, Ticket](
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


MARCH = Effect[March, Marched]("march", timeout=seconds(120), doubt=Repeat(), retry=QUICK, heartbeat=seconds(3))
