"""What is still to happen to a virtual workflow, in order; the virtual clock goes from one entry to the next."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, TypeAlias

from perdure.testing.server_jobs import WorkflowActivationJob

BLOCKED: Final = "blocked"

Condition: TypeAlias = Callable[[], bool | Awaitable[bool]]
When: TypeAlias = Condition | Literal["blocked"] | None

# what goes first at one virtual instant
AT_ONCE, ACTIVITY, MESSAGE, TIMER = range(4)


@dataclass(order=True)
class Due:
    """A job, or something outside of the workflow, and its moment.

    `events`: how many a job adds to the history, `None` if it makes no new task. What has a `label` is meant
    for the workflow, the rest for one run. `is_look`: the timer of a run that stands still until its code is replaced.
    """

    at: datetime
    rank: int
    order: int
    job: WorkflowActivationJob | None = field(compare=False)
    events: int | None = field(compare=False)
    label: str = field(compare=False, default="")
    outside: Callable[[], Awaitable[None]] | None = field(compare=False, default=None)
    dropped: bool = field(compare=False, default=False)
    is_look: bool = field(compare=False, default=False)


class Agenda:
    """Everything that is due, or waits for a condition; see the module."""

    def __init__(self) -> None:
        self._order = itertools.count()
        self._queue: list[Due] = []
        self._conditional: list[tuple[Condition, Due]] = []
        self._when_blocked: list[Due] = []
        self._has_looked = False
        """Whether a look was the last event, the activities left aside: another one would find the same."""

    def due(
        self,
        at: datetime,
        rank: int,
        job: WorkflowActivationJob | None,
        events: int | None,
        label: str = "",
        outside: Callable[[], Awaitable[None]] | None = None,
    ) -> Due:
        """An entry that comes after all that were made before it at the same moment."""
        return Due(at, rank, next(self._order), job, events, label, outside)

    def add(self, due: Due, when: When = None) -> Due:
        """Let it happen at its time, or `when` that holds."""
        if when is None:
            heapq.heappush(self._queue, due)
        elif isinstance(when, str):
            self._when_blocked.append(due)
        else:
            self._conditional.append((when, due))
        return due

    async def next(self, now: datetime) -> Due | None:
        """Take out what happens next; None if nothing ever will."""
        for condition, due in list(self._conditional):
            holds = condition()
            if holds if isinstance(holds, bool) else await holds:
                self._conditional.remove((condition, due))
                due.at = now
                heapq.heappush(self._queue, due)
        while self._queue and self._queue[0].dropped:
            heapq.heappop(self._queue)
        if self._queue and not (self._has_looked and all(due.is_look or due.dropped for due in self._queue)):
            return self._taken(heapq.heappop(self._queue))
        return self._taken(self._when_blocked.pop(0)) if self._when_blocked else None

    def _taken(self, due: Due) -> Due:
        if due.rank != ACTIVITY:
            self._has_looked = due.is_look
        return due

    def take_with_start(self) -> list[Due]:
        """Take out what goes along with the start of a run. A query can't: it is asked right after."""
        taken = [due for due in self._queue if due.rank == AT_ONCE and due.events is not None]
        self._queue = [due for due in self._queue if due not in taken]
        heapq.heapify(self._queue)
        return sorted(taken)

    def forget_run(self) -> None:
        """Drop what was meant for the run that is over."""
        self._queue = [due for due in self._queue if due.label]
        heapq.heapify(self._queue)

    def undelivered(self) -> tuple[str, ...]:
        """Labels of all that has not happened yet."""
        waiting = [*sorted(self._queue), *(due for _, due in self._conditional), *self._when_blocked]
        return tuple(due.label for due in waiting if due.label and due.job is not None)
