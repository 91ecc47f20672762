"""The environment of a pytest that a test starts."""

from __future__ import annotations

import os

TEMPORARY = "PYTEST_DEBUG_TEMPROOT"
"""Where that pytest makes its temporary directories. When pytest starts, it closes the folder of all its runs to other
users, and with it those directories in which a PostgreSQL of another test runs as a user of its own."""


def outside_pytest() -> dict[str, str]:
    """This process's environment, without the variables by which pytest recognises that it runs inside another."""
    return {name: value for name, value in os.environ.items() if name == TEMPORARY or not name.startswith("PYTEST_")}
