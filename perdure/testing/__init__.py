"""Rehearsing lifecycles: every crash in milliseconds, without servers.

seen = await rehearse(CommentNotification, comment,
                      {SEND_MAIL: [WorkerLost()], FIND_IN_MAIL_LOG: [Accepted(queue_id="4Q")]})
assert seen.states == [Notice.SENDING, Notice.SENT] and seen.calls(SEND_MAIL) == 1
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
