"""A background service goes on whatever one of its rounds raises, so that no worker stays without its relay."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from perdure._services.service import Service
from tests.deadline import in_time


class Failing(Service):
    """Raises so many times, and then does its round."""

    LONGEST_PAUSE = 0.0

    def __init__(self, error: Callable[[], Exception], times: int) -> None:
        super().__init__("failing", 0.0)
        self._error, self._left = error, times
        self.done = asyncio.Event()

    async def once(self) -> bool:
        if self._left:
            self._left -= 1
            raise self._error()
        self.done.set()
        return False


async def test_after_an_outage_of_hours_it_goes_on() -> None:
    """1,100 rounds: at five seconds each, an hour and a half."""
    service = Failing(lambda: ConnectionRefusedError("away"), 1100)
    await service.start()
    await in_time(service.done.wait())
    await service.stop()


async def test_after_a_bug_in_one_round_it_goes_on_and_says_where_the_bug_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    service = Failing(lambda: KeyError("no such thing"), 2)
    with caplog.at_level(logging.ERROR, "perdure.service"):
        await service.start()
        await in_time(service.done.wait())
        await service.stop()
    assert [record.getMessage() for record in caplog.records] == ["failing: a bug, goes on"] * 2
    assert all(record.exc_info for record in caplog.records)
