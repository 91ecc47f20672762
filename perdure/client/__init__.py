"""The calls of apps and operators. `Client` has all verbs, `SyncClient` those of synchronous code.

A web app that starts lifecycles by name imports neither a database driver, nor the worker, nor models of Pydantic.
"""

import importlib
from typing import TYPE_CHECKING, Any

from perdure.client.client import Client as Client
from perdure.client.client import Handle as Handle
from perdure.client.records import EffectRecord as EffectRecord
from perdure.client.records import EntityStatus as EntityStatus
from perdure.client.records import Event as Event
from perdure.client.sync import SyncClient as SyncClient

if TYPE_CHECKING:
    from perdure._wire.requests import Resolution as Resolution
    from perdure._wire.requests import SendAgain as SendAgain
    from perdure._wire.status import LifecycleStatus as LifecycleStatus

_MODELS = {"Resolution": "requests", "SendAgain": "requests", "LifecycleStatus": "status"}


def __getattr__(name: str) -> Any:
    if name not in _MODELS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"perdure._wire.{_MODELS[name]}"), name)
