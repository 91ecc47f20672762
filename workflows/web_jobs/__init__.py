"""The lifecycle of web jobs."""
