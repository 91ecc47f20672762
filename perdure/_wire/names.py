"""Names in histories: Perdure's own activity types and signals."""

from __future__ import annotations

WRITE = "perdure.write"
"""Activity type of the bookkeeping: one `Write`, one `Answer`."""
MESSAGE = "perdure-message"
"""The signal that carries one `Message` from the outbox."""
WAKE = "perdure-wake"
"""The signal of a late outcome: the performance of the effect with the given key reads the fence again."""
MIRROR = "perdure-mirror"
"""The signal that the mirror is behind: the run writes its state again."""
