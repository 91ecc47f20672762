"""Perdure: what must follow from a committed row happens, once, and anyone can see how far it is."""

from __future__ import annotations

import importlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from perdure.contracts.attempt import Attempt, Question
from perdure.contracts.effects import Effect, Find
from perdure.contracts.keys import Entity, Key
from perdure.contracts.outcomes import (
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
from perdure.contracts.policies import Dedupe, Escalate, Lookup, Repeat, Retry
from perdure.contracts.states import State, state
from perdure.errors import PerdureError
from perdure.store.writes import AppColumn
from perdure.workflow.lifecycle import Lifecycle
from perdure.workflow.requests import Request, Resolution, SendAgain
from perdure.workflow.status import LifecycleStatus

if TYPE_CHECKING:
    from perdure.app import App
    from perdure.client import Client, EffectRecord, EntityStatus, Handle
    from perdure.fleet.plugin import PerdurePlugin
    from perdure.settings import Settings

_IMPORTED_WHEN_USED = {
    "App": "app",
    "Client": "client",
    "EffectRecord": "client",
    "EntityStatus": "client",
    "Handle": "client",
    "PerdurePlugin": "fleet.plugin",
    "Settings": "settings",
}
"""What needs the database driver: a contract must not pull it in."""


def __getattr__(name: str) -> Any:
    try:
        module = _IMPORTED_WHEN_USED[name]
    except KeyError:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}") from None
    return getattr(importlib.import_module(f"perdure.{module}"), name)


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
    "App",
    "AppColumn",
    "Attempt",
    "Client",
    "Dedupe",
    "DifferentInput",
    "Done",
    "Effect",
    "EffectRecord",
    "Ended",
    "Entity",
    "EntityStatus",
    "Escalate",
    "Expired",
    "Find",
    "GaveUp",
    "Handle",
    "InDoubt",
    "Key",
    "Lifecycle",
    "LifecycleStatus",
    "Lookup",
    "NotDone",
    "PerdureError",
    "PerdurePlugin",
    "Question",
    "Refused",
    "Repeat",
    "Request",
    "Resolution",
    "Retry",
    "SendAgain",
    "Settings",
    "State",
    "Status",
    "WasRefused",
    "hours",
    "minutes",
    "seconds",
    "state",
]
