"""Brings in a table of work that something else has polled so far."""
