"""Which runs of the floor have ended; the only thing that its workflow touches."""

ended: set[int] = set()
