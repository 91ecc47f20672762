"""Traces and metrics, off unless they are configured: their names, and how they leave the process."""
