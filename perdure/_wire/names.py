"""Names that stand in histories: activity types and signals of perdure's own."""

from __future__ import annotations

WRITE = "perdure.write"
"""Activity type of the bookkeeping: one `Write`, one `Answer`."""
MESSAGE = "perdure-message"
"""The signal that carries one `Message` from the outbox."""
WAKE = "perdure-wake"
"""The signal that an outcome came late: whoever performs the effect of the given key reads the fence again."""
MIRROR = "perdure-mirror"
"""The signal that the mirror does not show what a run has done: it writes it again."""
