"""Perdure: what must follow from a committed row happens, once, and anyone can see how far it is."""

from __future__ import annotations

import importlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure._crypto.private import Private, PrivateAs, PrivatePattern
    from perdure._crypto.service import KeyService
    from perdure._wire.requests import Request, Resolution, SendAgain
    from perdure._wire.status import LifecycleStatus
    from perdure._worker.plugin import PerdurePlugin
    from perdure._workflow.lifecycle import Lifecycle
    from perdure.app import App
    from perdure.client import Client, EffectRecord, EntityStatus, Handle
    from perdure.client.feed import Event
    from perdure.contracts.app_column import AppColumn
    from perdure.contracts.app_rows import AppRows
    from perdure.contracts.attempt import Attempt, Question
    from perdure.contracts.effects import Effect, Find
    from perdure.contracts.erasure import Erasure
    from perdure.contracts.keys import Entity, Key
    from perdure.contracts.limits import Limit
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
    from perdure.contracts.steps import Occasion, Step
    from perdure.errors import PerdureError
    from perdure.settings import Settings

_MODULES = {
    "app": ("App",),
    "client": ("Client", "EffectRecord", "EntityStatus", "Handle"),
    "client.feed": ("Event",),
    "contracts.app_column": ("AppColumn",),
    "contracts.app_rows": ("AppRows",),
    "contracts.attempt": ("Attempt", "Question"),
    "contracts.effects": ("Effect", "Find"),
    "contracts.erasure": ("Erasure",),
    "contracts.keys": ("Entity", "Key"),
    "contracts.limits": ("Limit",),
    "contracts.outcomes": (
        "Abandoned",
        "DifferentInput",
        "Done",
        "Ended",
        "Expired",
        "GaveUp",
        "InDoubt",
        "NotDone",
        "Refused",
        "Status",
        "WasRefused",
    ),
    "contracts.policies": ("Dedupe", "Escalate", "Lookup", "Repeat", "Retry"),
    "contracts.states": ("State", "state"),
    "contracts.steps": ("Occasion", "Step"),
    "_crypto.private": ("Private", "PrivateAs", "PrivatePattern"),
    "_crypto.service": ("KeyService",),
    "errors": ("PerdureError",),
    "_worker.plugin": ("PerdurePlugin",),
    "settings": ("Settings",),
    "_workflow.lifecycle": ("Lifecycle",),
    "_wire.requests": ("Request", "Resolution", "SendAgain"),
    "_wire.status": ("LifecycleStatus",),
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}
"""Imported when used: a contract must pull in no database driver, and pytest, which loads our plugin, nothing."""


def __getattr__(name: str) -> Any:
    try:
        module = _WHERE[name]
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
    "AppRows",
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
    "Erasure",
    "Escalate",
    "Event",
    "Expired",
    "Find",
    "GaveUp",
    "Handle",
    "InDoubt",
    "Key",
    "KeyService",
    "Lifecycle",
    "LifecycleStatus",
    "Limit",
    "Lookup",
    "NotDone",
    "Occasion",
    "PerdureError",
    "PerdurePlugin",
    "Private",
    "PrivateAs",
    "PrivatePattern",
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
    "Step",
    "WasRefused",
    "hours",
    "minutes",
    "seconds",
    "state",
]
