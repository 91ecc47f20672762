"""Perdure: what must follow from a committed row happens, once, and anyone can see how far it is."""

from datetime import timedelta

from perdure.attempt import Attempt, Question
from perdure.conduct import Request
from perdure.contracts import Effect, Find
from perdure.errors import PerdureError
from perdure.keys import Entity, Key
from perdure.lifecycle import Lifecycle, LifecycleStatus, SendAgain
from perdure.outcomes import (
    Abandoned,
    DifferentInput,
    Done,
    Ended,
    Expired,
    GaveUp,
    InDoubt,
    NotDone,
    Refused,
    Status,
    WasRefused,
)
from perdure.performing import Resolution
from perdure.policies import Dedupe, Escalate, Lookup, Repeat, Retry
from perdure.states import State, state
from perdure.store.writes import AppColumn


def seconds(number: float) -> timedelta:
    """`number` seconds as a `timedelta`."""
    return timedelta(seconds=number)


def minutes(number: float) -> timedelta:
    """`number` minutes as a `timedelta`."""
    return timedelta(minutes=number)


def hours(number: float) -> timedelta:
    """`number` hours as a `timedelta`."""
    return timedelta(hours=number)


__all__ = [
    "Abandoned",
    "AppColumn",
    "Attempt",
    "Dedupe",
    "DifferentInput",
    "Done",
    "Effect",
    "Ended",
    "Entity",
    "Escalate",
    "Expired",
    "Find",
    "GaveUp",
    "InDoubt",
    "Key",
    "Lifecycle",
    "LifecycleStatus",
    "Lookup",
    "NotDone",
    "PerdureError",
    "Question",
    "Refused",
    "Repeat",
    "Request",
    "Resolution",
    "Retry",
    "SendAgain",
    "State",
    "Status",
    "WasRefused",
    "hours",
    "minutes",
    "seconds",
    "state",
]
