"""What a service reports, and what the health of its process makes of that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from perdure import _pulse
from perdure._services.health import Health
from perdure._services.service import Service
from perdure.errors import TemporalUnavailable
from tests.deadline import in_time, until


class Doing(Service):
    """Does in each round what it is given."""

    def __init__(self, act: Callable[[], Awaitable[None]]) -> None:
        super().__init__("doing", 0.0)
        self._act = act
        self.began = asyncio.Event()

    async def once(self) -> bool:
        self.began.set()
        await self._act()
        return False


def reasons(health: Health) -> dict[str, str]:
    """Why it is not ready."""
    return {each.service: each.why for each in health.ready().problems}


def observed(service: Service) -> Health:
    """The health of a process that runs this one."""
    health = Health("worker")
    health.watch(service.pulses)
    return health


async def test_a_round_that_waits_for_nothing_with_a_time_out_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pulse, "WITHIN", 0.05)
    service = Doing(asyncio.Event().wait)  # type: ignore[arg-type]
    health = observed(service)
    assert health.live().body == {"live": True, "reasons": []}
    await service.start()
    await until(lambda: health.live().problems, "it hangs")
    assert not health.live().body["live"]
    await service.stop(patience=0)
    assert not health.live().problems


async def test_a_statement_that_waits_within_its_time_out_is_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pulse, "WITHIN", 0.05)
    answered = asyncio.Event()

    async def statement() -> None:
        _pulse.waits(3600)
        await answered.wait()

    service = Doing(lambda: asyncio.create_task(statement()))  # of a task that the round creates as well
    health = observed(service)
    await service.start()
    await in_time(service.began.wait())
    beside = Doing(asyncio.Event().wait)  # type: ignore[arg-type]
    await beside.start()
    await until(lambda: beside.pulse.hung, "one that began later, and waits for no statement, hangs")
    assert not health.live().problems
    answered.set()
    await service.stop()
    await beside.stop(patience=0)


async def test_a_service_that_has_ended_and_was_not_stopped_needs_a_new_process() -> None:
    service = Doing(asyncio.Event().wait)  # type: ignore[arg-type]
    health = observed(service)
    await service.start()
    await in_time(service.began.wait())
    assert service._task is not None
    service._task.cancel()
    await until(lambda: health.live().problems, "it is reported")
    assert health.live().problems[0].why == "it has ended"


async def test_a_failing_service_is_reported_from_its_first_failure_until_it_works() -> None:
    failures = [TemporalUnavailable("away"), TemporalUnavailable("still away")]

    async def act() -> None:
        if failures:
            raise failures[0]

    service = Doing(act)
    health = observed(service)
    assert reasons(health) == {"worker": "it is starting"}
    health.runs()
    await service.start()
    await until(lambda: health.ready().problems, "the first failure")
    first = health.ready().problems[0]
    failures.pop(0)
    await until(lambda: reasons(health) == {"doing": "still away"}, "the second failure")
    assert health.ready().problems[0].since == first.since
    assert not health.live().problems
    failures.clear()
    await until(lambda: not health.ready().problems, "it works again")
    health.stops()
    assert reasons(health) == {"worker": "it is stopping"}
    await service.stop()
