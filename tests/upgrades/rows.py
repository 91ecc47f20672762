"""Which change of the table in docs/upgrading.md a test makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Test = TypeVar("Test", bound=Callable[..., object])


def row(*changes: str) -> Callable[[Test], Test]:
    """Names them, as the table's first column does; tests/unit/test_upgrading_table.py compares both."""
    assert changes

    def same(test: Test) -> Test:
        return test

    return same
