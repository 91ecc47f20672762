"""Imports rows of work that something else has polled so far."""
