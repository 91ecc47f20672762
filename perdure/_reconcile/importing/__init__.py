"""Imports rows of work that another program has processed so far."""
