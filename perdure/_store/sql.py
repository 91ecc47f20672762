"""The SQL that Python sends: one named file each, beside the room that sends it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import resources


def queries(module: str) -> Callable[[str], str]:
    """Return what reads the queries of a module's room.

    Args:
        module: its `__name__`. The room of `perdure._services.relay` is `perdure/_services`, and `<name>` stands in its
            `queries/<name>.sql`.
    """
    room = ".".join(module.split(".")[:2])

    @cache
    def query(name: str) -> str:
        return resources.files(room).joinpath("queries", f"{name}.sql").read_text("utf-8")

    return query


shared = queries(__name__)
"""Reads the queries that more than one room sends."""
