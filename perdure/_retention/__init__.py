"""Exports and drops months of finished entities, and forgets single entities."""
