"""The SQL of pages of the console, in files beside the module that sends it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import resources


def queries(package: str) -> Callable[[str], str]:
    """Return a function that reads the queries of a package: `<name>` is in its `queries/<name>.sql`."""

    @cache
    def query(name: str) -> str:
        return resources.files(package).joinpath("queries", f"{name}.sql").read_text("utf-8")

    return query
