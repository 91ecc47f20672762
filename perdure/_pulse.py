"""The pulse of a background service: it states by when it reports again, and hangs if it has not by then.

A statement that waits within its time-out is no hang: whoever waits for one states how long that may take.
"""

from __future__ import annotations

import time
from contextvars import ContextVar
from dataclasses import dataclass
from math import inf

WITHIN = 60.0
"""Seconds within which a service reports, beyond the time-out of a statement that it waits for."""

_current: ContextVar[Pulse | None] = ContextVar("perdure_pulse", default=None)


@dataclass(frozen=True, slots=True)
class ServiceProblem:
    """What is wrong with a service.

    Attributes:
        since: seconds since the epoch.
        why: in one line.
    """

    service: str
    since: float
    why: str


class Pulse:
    """When a service reported last, and by when it reports again. Other threads may read it.

    Args:
        name: of the service.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._reported = time.time()
        self._due = inf
        self._hanging: ServiceProblem | None = None
        self._failing: ServiceProblem | None = None

    def beat(self, more: float = 0.0) -> None:
        """Report, and state that the next report comes within `WITHIN` and so many seconds."""
        self._reported = time.time()
        self._due = time.monotonic() + more + WITHIN

    def rest(self) -> None:
        """Report for the last time: the service was stopped, and nothing of it is due."""
        self._due, self._hanging, self._failing = inf, None, None

    def works(self) -> None:
        """Report that a round succeeded."""
        self._failing = None

    def fails(self, why: str) -> None:
        """Report that a round failed, or that the service may do nothing now."""
        self._failing = ServiceProblem(self.name, self._failing.since if self._failing else time.time(), why)

    def hangs(self, why: str | None) -> None:
        """State that the service, though it reports, does nothing; None = it does something again."""
        if why is None:
            self._hanging = None
        elif self._hanging is None:
            self._hanging = ServiceProblem(self.name, time.time(), why)

    @property
    def hung(self) -> ServiceProblem | None:
        """Why only a new process can help; None if the service reports as it should."""
        if self._hanging is None and time.monotonic() > self._due:
            return ServiceProblem(self.name, self._reported, "it hangs: it has not reported when it was due")
        return self._hanging

    @property
    def problem(self) -> ServiceProblem | None:
        """Why the service does not do its work; None if it does."""
        return self.hung or self._failing


def follow(pulse: Pulse) -> None:
    """Let the waits of this task, and of the tasks that it creates, be reported by this pulse."""
    _current.set(pulse)


def waits(seconds: float) -> None:
    """State that the service whose task this is, if it is one's, may wait so long for what comes next."""
    if (pulse := _current.get()) is not None:
        pulse.beat(seconds)
