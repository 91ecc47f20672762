"""Whether a branch of the author's code is ahead: past the place where the branch was in the previous run.

A run has several branches, and each comes past that place by itself: one branch that has acted proves nothing about the
others. A branch that begins in another one begins where that one is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_AHEAD: ContextVar[bool] = ContextVar("perdure_ahead", default=False)


def go_ahead() -> None:
    """Note that the present branch has waited, or has acted, in this run."""
    _AHEAD.set(True)


def is_ahead() -> bool:
    """Whether the present branch has waited, or has acted, in this run."""
    return _AHEAD.get()


@contextmanager
def ahead_unless_withdrawn() -> Iterator[None]:
    """Surround a wait that takes the present branch ahead. If the author's code withdraws the wait, as at a time-out,
    the previous run may have passed it in the same way, and the branch is where it was before."""
    before = is_ahead()
    go_ahead()
    try:
        yield
    except asyncio.CancelledError:
        _AHEAD.set(before)
        raise
