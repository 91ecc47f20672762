"""Which database this is: a copy, or an older state of it, sends nothing (invariant 11)."""
