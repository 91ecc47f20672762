"""Whether a branch of the author's code has come past the place where the branch was in the previous run.

A run has several branches, and each arrives by itself: a branch that has acted says nothing about the others. A branch
that begins in another one begins where that one is.
"""

from __future__ import annotations

from contextvars import ContextVar

_ARRIVED: ContextVar[bool] = ContextVar("perdure_arrived", default=False)


def arrived(so: bool = True) -> None:
    """Note whether the present branch has waited, or has acted, in this run."""
    _ARRIVED.set(so)


def has_arrived() -> bool:
    """Whether the present branch has waited, or has acted, in this run."""
    return _ARRIVED.get()
