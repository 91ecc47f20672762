"""Whether a branch of the author's code is ahead: past the place where the branch was in the previous run.

A run has several branches, and each comes past that place by itself: one branch that has acted proves nothing about the
others. A branch that begins in another one begins where that one is.

A branch that has waited may be behind that place all the same, if the wait was withdrawn: the previous run may have had
no need of it. But it is not on its way from the top of `run` to its first wait any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_AHEAD: ContextVar[bool] = ContextVar("perdure_ahead", default=False)


class _Branch:
    """A task of the author's code.

    Attributes:
        waited: whether the task itself has waited, or has acted.
        parts: the tasks that it has begun.
    """

    def __init__(self, task: asyncio.Task[object]) -> None:
        self.task = task
        self.waited = False
        self.parts: list[_Branch] = []

    def has_waited(self) -> bool:
        """Whether it has waited, or has acted, itself or in a part that has ended."""
        return self.waited or any(each.task.done() and each.has_waited() for each in self.parts)


_BRANCH: ContextVar[_Branch | None] = ContextVar("perdure_branch", default=None)


def note_branch() -> None:
    """Note that the present task is a branch of the author's code."""
    task, before = asyncio.current_task(), _BRANCH.get()
    if task is None or (before is not None and before.task is task):
        return
    branch = _Branch(task)
    if before is not None:
        before.parts.append(branch)
    _BRANCH.set(branch)


def go_ahead() -> None:
    """Note that the present branch has waited, or has acted, in this run."""
    _AHEAD.set(True)
    note_wait()


def is_ahead() -> bool:
    """Whether the present branch has waited, or has acted, in this run."""
    return _AHEAD.get()


def note_wait() -> None:
    """Note that the present branch has waited, or has acted, in this run, although its code may have withdrawn that."""
    if (branch := _BRANCH.get()) is not None:
        branch.waited = True


def has_waited() -> bool:
    """Whether the present branch has waited, or has acted, in this run: also in a part of it that has ended, and if its
    code has withdrawn that."""
    branch = _BRANCH.get()
    return branch is not None and branch.has_waited()


@contextmanager
def ahead_unless_withdrawn() -> Iterator[None]:
    """Surround a wait that takes the present branch ahead. If the author's code withdraws the wait, as at a time-out,
    the previous run may have passed it in the same way, and the branch is where it was before."""
    before = is_ahead()
    _AHEAD.set(True)
    try:
        yield
    except asyncio.CancelledError:
        _AHEAD.set(before)
        raise
