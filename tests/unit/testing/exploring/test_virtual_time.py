"""The event loop on virtual time keeps the order of timers, ends, and reports mistakes of the simulation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from perdure.testing.exploring.sql_sessions import OutsideLoop
from perdure.testing.exploring.virtual_time import NeverEnds, StandsStill, VirtualLoop

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def virtual() -> Iterator[VirtualLoop]:
    loop = VirtualLoop(START, timedelta(days=60))
    yield loop
    loop.close()


def test_a_sleep_of_a_month_ends_at_once_and_the_clock_shows_it(virtual: VirtualLoop) -> None:
    seen = list[datetime]()

    async def sleeper() -> None:
        await asyncio.sleep(30 * 86_400)
        seen.append(virtual.now)

    virtual.create_task(sleeper())
    with pytest.raises(StandsStill):
        virtual.run_forever()
    assert seen == [START + timedelta(days=30)]


def test_timers_ring_in_the_order_of_their_times_and_a_cancelled_one_does_not(virtual: VirtualLoop) -> None:
    rung = list[str]()
    for seconds, name in ((2.0, "second"), (1.0, "first"), (3.0, "third")):
        virtual.call_later(seconds, rung.append, name)
    virtual.call_later(1.5, rung.append, "cancelled").cancel()
    with pytest.raises(StandsStill):
        virtual.run_forever()
    assert rung == ["first", "second", "third"]
    assert virtual.time() == 3.0


def test_timers_without_end_are_reported_and_one_that_is_years_ahead_is_not(virtual: VirtualLoop) -> None:
    def again() -> None:
        virtual.call_later(3600, again)

    virtual.call_later(10 * 365 * 86_400, again)
    with pytest.raises(NeverEnds):
        virtual.run_forever()
    assert virtual.time() > 10 * 365 * 86_400


def test_an_exception_in_a_callback_of_the_simulation_is_not_swallowed(virtual: VirtualLoop) -> None:
    virtual.call_soon({}.__getitem__, "a run that is not in the cache")
    with pytest.raises(KeyError, match="not in the cache"):
        virtual.run_forever()


def test_a_generator_that_nobody_goes_on_with_is_ended_by_the_loop(virtual: VirtualLoop) -> None:
    ended = list[str]()

    async def generator() -> AsyncGenerator[str, None]:
        try:
            yield "first"
        finally:
            await asyncio.sleep(1)
            ended.append("ended")

    async def first() -> None:
        await anext(generator())

    virtual.create_task(first())
    with pytest.raises(StandsStill):
        virtual.run_forever()
    assert ended == ["ended"]


def test_a_loop_that_begins_again_has_all_its_time() -> None:
    loop = OutsideLoop(START, timedelta(minutes=15))
    for _ in range(3):
        loop.run_until_complete(asyncio.sleep(600))
        loop.rewind()
    loop.close()
