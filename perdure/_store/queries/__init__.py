"""The SQL that Python sends, one named file each."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def query(name: str) -> str:
    """The text of `<name>.sql`."""
    return resources.files(__name__).joinpath(f"{name}.sql").read_text("utf-8")
