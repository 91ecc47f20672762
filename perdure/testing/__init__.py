"""Tests of lifecycles: rehearsals and random exploration in milliseconds without servers, and every crash point on real
servers.

seen = await rehearse(ShipOrder, order, {SHIP: [WorkerLost()], FIND_SHIPMENT: [Label(tracking="X1")]})
assert seen.states == [Shipment.SHIPPING, Shipment.SHIPPED] and seen.calls(SHIP) == 1
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from perdure.testing.sdk import check_sdk

if TYPE_CHECKING:
    from perdure.testing.crashing import CrashPointsFailed, Proof, Servers
    from perdure.testing.crashing.workflows import workflow_crash_points
    from perdure.testing.exploring.explore import Exploration, ExplorationFailed, explore
    from perdure.testing.exploring.scenario_end import ScenarioEnd
    from perdure.testing.following import Feed, Follower, FollowerFailed, follow
    from perdure.testing.messages import CANCEL_WORKFLOW, Answered, At, Message, When, WhenBlocked, WhenIn, WhenParked
    from perdure.testing.recorded import Recorded
    from perdure.testing.rehearsal import Rehearsal, rehearse
    from perdure.testing.script import After, Calls, Late, NotPickedUp, ScriptError, WorkerLost
    from perdure.testing.server import START

_MODULES = {
    "crashing": ("CrashPointsFailed", "Proof", "Servers"),
    "crashing.workflows": ("workflow_crash_points",),
    "server": ("START",),
    "following": ("Feed", "Follower", "FollowerFailed", "follow"),
    "messages": ("Answered", "At", "CANCEL_WORKFLOW", "Message", "When", "WhenBlocked", "WhenIn", "WhenParked"),
    "exploring.explore": ("Exploration", "ExplorationFailed", "explore"),
    "exploring.scenario_end": ("ScenarioEnd",),
    "recorded": ("Recorded",),
    "rehearsal": ("Rehearsal", "rehearse"),
    "script": ("After", "Calls", "Late", "NotPickedUp", "ScriptError", "WorkerLost"),
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    try:
        module = _WHERE[name]
    except KeyError:
        raise AttributeError(f"module 'perdure.testing' has no attribute {name!r}") from None
    check_sdk()
    return getattr(importlib.import_module(f"perdure.testing.{module}"), name)


__all__ = [
    "CANCEL_WORKFLOW",
    "START",
    "After",
    "Answered",
    "At",
    "Calls",
    "CrashPointsFailed",
    "Exploration",
    "ExplorationFailed",
    "Feed",
    "Follower",
    "FollowerFailed",
    "Late",
    "Message",
    "NotPickedUp",
    "Proof",
    "Recorded",
    "Rehearsal",
    "ScenarioEnd",
    "ScriptError",
    "Servers",
    "When",
    "WhenBlocked",
    "WhenIn",
    "WhenParked",
    "WorkerLost",
    "explore",
    "follow",
    "rehearse",
    "workflow_crash_points",
]
