"""Rehearsing lifecycles: every crash in milliseconds, without servers.

seen = await rehearse(ShipOrder, order, {SHIP: [WorkerLost()], FIND_SHIPMENT: [Label(tracking="X1")]})
assert seen.states == [Shipment.SHIPPING, Shipment.SHIPPED] and seen.calls(SHIP) == 1
"""

from __future__ import annotations

from perdure.testing.engine import START
from perdure.testing.messages import CANCEL_WORKFLOW, Answered, At, Message, When, WhenBlocked, WhenIn, WhenParked
from perdure.testing.recorded import Recorded
from perdure.testing.rehearse import Rehearsal, rehearse
from perdure.testing.script import After, Late, NotPickedUp, ScriptError, WorkerLost

__all__ = [
    "CANCEL_WORKFLOW",
    "START",
    "After",
    "Answered",
    "At",
    "Late",
    "Message",
    "NotPickedUp",
    "Recorded",
    "Rehearsal",
    "ScriptError",
    "When",
    "WhenBlocked",
    "WhenIn",
    "WhenParked",
    "WorkerLost",
    "rehearse",
]
