"""Reads the SQL that Python sends. Each query is a named file beside the room that sends it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import resources


def queries(module: str) -> Callable[[str], str]:
    """Return a function that reads the queries of a module's room.

    Args:
        module: the module's `__name__`. The room of `perdure._services.relay` is `perdure/_services`, and the query
            `<name>` is in its `queries/<name>.sql`.
    """
    room = ".".join(module.split(".")[:2])

    @cache
    def query(name: str) -> str:
        return resources.files(room).joinpath("queries", f"{name}.sql").read_text("utf-8")

    return query


shared = queries(__name__)
"""Reads the queries that several rooms send."""
