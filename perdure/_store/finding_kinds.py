"""The classes of difference between outbox, mirror and Temporal: each has a name, and a page in docs/runbook."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One class of difference.

    Attributes:
        name: the name in `perdure.finding`, in metrics, and of the page in the runbook.
        mends: whether the reconciliation can mend the difference by itself.
        meaning: the difference in one line.
    """

    name: str
    mends: bool
    meaning: str


UNDELIVERED = Kind("undelivered", True, "committed, and not delivered to Temporal")
MISSING = Kind("missing", True, "a row of the app that should have a lifecycle, and has none")
BEHIND = Kind("behind", True, "the mirror shows something else than the open workflow")
UNFINISHED = Kind("unfinished", True, "the workflow closed normally, and the mirror shows it as open")
ENDED = Kind("ended", True, "the workflow failed, timed out, was terminated or cancelled, and its row is open")
VANISHED = Kind("vanished", True, "an open row without a workflow anywhere")
STUCK = Kind("stuck", False, "longer in its state than `within` allows")
PARKED = Kind("parked", False, "in doubt, and waits for a person")
UNREADABLE = Kind("unreadable", False, "a row that today's code can't read")
UNRECORDED = Kind("unrecorded", True, "an open workflow without a row")
OUTLIVED = Kind("outlived", True, "an open workflow of an entity that is finished")
FAILING = Kind("failing", False, "a workflow whose tasks fail again and again")
SCHEDULE = Kind("schedule", True, "the reconciliation's own schedule was missing, or changed")
MONTHS = Kind("months", False, "an old month that could not be exported or dropped")

KINDS = (
    *(UNDELIVERED, MISSING, BEHIND, UNFINISHED, ENDED, VANISHED),
    *(STUCK, PARKED, UNREADABLE, UNRECORDED, OUTLIVED, FAILING, SCHEDULE, MONTHS),
)
"""All classes."""
