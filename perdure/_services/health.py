"""The health of one process: whether only a new process can help (`live`), and whether it does its work (`ready`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from perdure._pulse import Pulse, ServiceProblem
from perdure._services.service import Service


@dataclass(frozen=True, slots=True)
class Report:
    """An answer to `/live` or `/ready`.

    Attributes:
        question: `live` or `ready`.
        problems: why the answer is no; none = yes.
    """

    question: str
    problems: Sequence[ServiceProblem] = ()

    @property
    def body(self) -> dict[str, Any]:
        """The answer as JSON."""
        reasons = [{"service": each.service, "since": _shown(each.since), "why": each.why} for each in self.problems]
        return {self.question: not reasons, "reasons": reasons}


class EventLoop(Service):
    """Reports as long as the event loop of the process runs."""

    def __init__(self) -> None:
        super().__init__("event loop", every=1.0)

    async def once(self) -> bool:
        """See base class: nothing to do."""
        return False


class Health:
    """What the services of one process report. Other threads may ask.

    Args:
        name: the name of the process, which stands for the service if a reason is about the whole process.
    """

    def __init__(self, name: str = "worker") -> None:
        self._name = name
        self._phase: ServiceProblem | None = ServiceProblem(name, time.time(), "it is starting")
        self._pulses: list[Pulse] = []

    def watch(self, pulses: Iterable[Pulse]) -> None:
        """Watch these pulses too."""
        self._pulses += pulses

    def runs(self) -> None:
        """State that the process has started, and takes work."""
        self._phase = None

    def stops(self) -> None:
        """State that the process has received a request to stop: it takes no new work."""
        self._phase = ServiceProblem(self._name, time.time(), "it is stopping")

    def live(self) -> Report:
        """No if a service hangs or has ended: only a new process can help. An unavailable server is no
        reason."""
        return Report("live", self._problems(lambda pulse: pulse.hung))

    def ready(self) -> Report:
        """No if the process cannot do its work, also because a server is unavailable."""
        phase = [self._phase] if self._phase else []
        return Report("ready", [*phase, *self._problems(lambda pulse: pulse.problem)])

    def _problems(self, of: Callable[[Pulse], ServiceProblem | None]) -> list[ServiceProblem]:
        return [found for pulse in list(self._pulses) if (found := of(pulse)) is not None]


def _shown(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
