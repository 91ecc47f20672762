"""The acts of applications, relays and Temporal, and faults of them, in a scenario on PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass

NOWHERE = "nowhere"
"""A lifecycle that no build has."""
PLACES = (
    "before the delivery of a start",
    "before the delivery of a message",
    "after the delivery of a start",
    "after the delivery of a message",
    "after the messages got their places",
    "before the commit of the outbox",
    "after the commit of the outbox",
)
"""The places where a relay can be killed."""
VERBS = (
    *("message", "message", "message", "remark", "nonsense message", "cancel", "restart", "restart", "drop rejected"),
    "orphan",
)
"""The acts of an application in a transaction; `nonsense message` = no build has its handler, `orphan` = a message
whose entity is not there."""
WAYS = (
    *("", "", "late", "late", "rolled back", "again", "repeatable", "repeatable", "serializable"),
    *("later", "far", "beyond"),
)
"""How: it commits late, rolls back, is done once more since the reply to its commit was lost, has an old snapshot, or
requests a delivery that is later, at the end of the year 9999, or beyond that."""
STARTS = (
    *("", "", "", "late", "rolled back", "again", "later", "beyond"),
    *("by name", "by name", "in a nonsense state", "nowhere", "unfit", "unfit"),
)
"""`unfit` = with an input that no build can read."""
OUTSIDE = (
    *("Temporal away", "namespace gone", "Temporal loses replies", "kill relay", "start relay"),
    *("sessions lost", "PostgreSQL restarts"),
)
"""`sessions lost` = PostgreSQL ends all sessions that somebody has: it rolls back what they have not committed."""


@dataclass(frozen=True)
class Act:
    """An act of an application, or of an operator of the servers.

    Attributes:
        at: seconds after the start.
        what: `start`, one of `VERBS`, or of `OUTSIDE`.
        entity: number of the entity, or of the build of a relay that is started.
        how: one of `WAYS`; for a start of `STARTS`.
        seconds: how long a transaction is open, or a fault lasts.
    """

    at: float
    what: str
    entity: int = 0
    how: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"after {self.at:g} s: {self.what} {self.entity} {self.how} ({self.seconds:g} s)"
