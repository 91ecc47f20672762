"""Identifies the database, so that a copy, or an older state of it, sends nothing (invariant 11)."""
