"""Lifecycles of the tests: a booking per doubt policy and way to run it, and a few with shapes of their own.

Each stands in a small file of its own, since the sandbox imports a lifecycle's file again for every run.
"""

from __future__ import annotations

from tests.apps.booking import BookingLifecycle, Way
from tests.apps.kinds.counter import Count, Counter, Open
from tests.apps.kinds.dedupe import Dedupe, DedupeInline
from tests.apps.kinds.escalate import Escalate, EscalateInline
from tests.apps.kinds.lookup import LookupBooking, LookupInline
from tests.apps.kinds.march import Marching, Pace
from tests.apps.kinds.repeat import Repeat, RepeatInline

__all__ = [
    "LIFECYCLES",
    "BookingLifecycle",
    "Count",
    "Counter",
    "Dedupe",
    "DedupeInline",
    "Escalate",
    "EscalateInline",
    "LookupBooking",
    "LookupInline",
    "Marching",
    "Open",
    "Pace",
    "Repeat",
    "RepeatInline",
    "Way",
]

LIFECYCLES = (
    LookupBooking,
    LookupInline,
    Dedupe,
    DedupeInline,
    Repeat,
    RepeatInline,
    Escalate,
    EscalateInline,
    Marching,
    Counter,
)
