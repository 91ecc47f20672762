"""Histories of releases, which every later release must be able to replay (invariant 12)."""
