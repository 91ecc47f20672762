"""Perdure: what must follow from a committed row happens, once, and anyone can see how far it is."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure._wire.requests import OperatorRequest
    from perdure._worker.plugin import PerdurePlugin
    from perdure._workflow.lifecycle import Lifecycle
    from perdure.app import App
    from perdure.client import Client, SyncClient
    from perdure.contracts.app_column import AppColumn
    from perdure.contracts.attempt import Attempt, LookupContext
    from perdure.contracts.effects import Effect, Lookup, effect, lookup
    from perdure.contracts.keys import Entity
    from perdure.contracts.outcomes import (
        Abandoned,
        DifferentInput,
        Done,
        Expired,
        GaveUp,
        InDoubt,
        NotDone,
        NotPerformed,
        Refused,
        WasRefused,
    )
    from perdure.contracts.policies import AskFirst, Dedupe, Escalate, Repeat, RetryPolicy
    from perdure.contracts.states import state
    from perdure.contracts.steps import Step, StepContext, step
    from perdure.errors import PerdureError
    from perdure.settings import Settings

_MODULES = {
    "app": ("App",),
    "client": ("Client", "SyncClient"),
    "contracts.app_column": ("AppColumn",),
    "contracts.attempt": ("Attempt", "LookupContext"),
    "contracts.effects": ("Effect", "Lookup", "effect", "lookup"),
    "contracts.keys": ("Entity",),
    "contracts.outcomes": (
        "Abandoned",
        "DifferentInput",
        "Done",
        "NotPerformed",
        "Expired",
        "GaveUp",
        "InDoubt",
        "NotDone",
        "Refused",
        "WasRefused",
    ),
    "contracts.policies": ("Dedupe", "Escalate", "AskFirst", "Repeat", "RetryPolicy"),
    "contracts.states": ("state",),
    "contracts.steps": ("StepContext", "Step", "step"),
    "errors": ("PerdureError",),
    "_worker.plugin": ("PerdurePlugin",),
    "settings": ("Settings",),
    "_workflow.lifecycle": ("Lifecycle",),
    "_wire.requests": ("OperatorRequest",),
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}
"""Imported on first use: a contract must import no database driver, and pytest, which loads our plugin, nothing."""


def __getattr__(name: str) -> Any:
    try:
        module = _WHERE[name]
    except KeyError:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}") from None
    return getattr(importlib.import_module(f"perdure.{module}"), name)


__all__ = [
    "Abandoned",
    "App",
    "AppColumn",
    "AskFirst",
    "Attempt",
    "Client",
    "Dedupe",
    "DifferentInput",
    "Done",
    "Effect",
    "Entity",
    "Escalate",
    "Expired",
    "GaveUp",
    "InDoubt",
    "Lifecycle",
    "Lookup",
    "LookupContext",
    "NotDone",
    "NotPerformed",
    "OperatorRequest",
    "PerdureError",
    "PerdurePlugin",
    "Refused",
    "Repeat",
    "RetryPolicy",
    "Settings",
    "Step",
    "StepContext",
    "SyncClient",
    "WasRefused",
    "effect",
    "lookup",
    "state",
    "step",
]
