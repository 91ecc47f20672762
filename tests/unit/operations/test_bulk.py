"""An act on many entities leaves none out after an interruption, and one entity's failure affects no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from perdure._operations.bulk import AT_ONCE, UNANSWERED, Bulk, Choice, Name, Tally
from perdure.errors import NotNow, TemporalUnavailable
from tests.deadline import in_time


async def names(count: int, lifecycle: str = "order") -> AsyncIterator[Choice]:
    for number in range(count):
        yield Choice(Name(lifecycle, f"{number:03}"))


class Acting:
    """Acts, and remembers for whom."""

    def __init__(self, rate: float = 0) -> None:
        self.did: list[str] = []
        self.refusals: list[str] = []
        self.failing: dict[str, Exception] = {}
        self.stop = asyncio.Event()
        self.stop_at: str | None = None
        self.bulk = Bulk(self.act, rate, self.stop, lambda error: self.refusals.append(str(error)), self.seen)

    async def act(self, choice: Choice) -> str:
        entity = choice.name.entity
        await asyncio.sleep(0)
        if entity.id == self.stop_at:
            self.stop.set()
        if entity.id in self.failing:
            raise self.failing[entity.id]
        self.did.append(entity.id)
        return "done"

    def seen(self, tally: Tally) -> None:
        """The bar."""


async def test_a_refused_entity_does_not_stop_the_others() -> None:
    acting = Acting()
    acting.failing["003"] = NotNow("order/003: too late")
    tally = await acting.bulk.run(names(20))
    assert (tally.accepted, tally.refused, tally.interrupted, tally.unanswered) == (19, 1, False, None)
    assert acting.refusals == ["order/003: too late"]


async def test_a_name_that_no_worker_takes_is_refused_alone() -> None:
    acting = Acting()

    async def chosen() -> AsyncIterator[Choice]:
        yield Choice(Name("order", "a\u200b"))
        yield Choice(Name("order", "b"))

    tally = await acting.bulk.run(chosen())
    assert (tally.accepted, tally.refused) == (1, 1)


async def test_whoever_goes_on_after_an_interruption_meets_the_rest_and_nobody_twice() -> None:
    acting = Acting()
    acting.stop_at = "040"
    tally = await acting.bulk.run(names(100))
    assert tally.interrupted
    assert tally.last == Name("order", acting.did[-1]) == Name("order", f"{tally.dealt_with - 1:03}")
    assert 40 < tally.dealt_with <= 40 + AT_ONCE


async def test_when_nobody_answers_any_more_it_stops_and_goes_on_before_the_first_of_them() -> None:
    acting = Acting()
    acting.failing = {f"{number:03}": TemporalUnavailable("no answer") for number in range(50, 100)}
    tally = await acting.bulk.run(names(100))
    assert tally.last == Name("order", "049")
    assert tally.unanswered is not None
    assert (tally.refused, tally.unknown < UNANSWERED + AT_ONCE + 1) == (0, True)
    assert len(acting.did) == 50


async def test_some_that_never_answer_do_not_stop_the_others() -> None:
    acting = Acting()
    acting.failing = {f"{number:03}": TemporalUnavailable("no answer") for number in range(0, 100, 10)}
    tally = await acting.bulk.run(names(100))
    assert (tally.accepted, tally.unknown, tally.unanswered) == (90, 10, None)


async def test_an_unexpected_error_is_raised() -> None:
    acting = Acting()
    acting.failing["003"] = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await acting.bulk.run(names(20))


async def test_no_more_are_begun_in_a_second_than_were_asked_for() -> None:
    acting, loop = Acting(rate=100), asyncio.get_running_loop()
    began = loop.time()
    await acting.bulk.run(names(21))
    assert loop.time() - began >= 0.2


async def test_a_stop_is_heard_while_it_waits_for_its_turn() -> None:
    acting = Acting(rate=0.001)
    acting.stop_at = "000"
    tally = await in_time(acting.bulk.run(names(3)))
    assert (tally.accepted, tally.last, tally.interrupted) == (1, Name("order", "000"), True)


def test_a_name_is_read_as_it_is_shown() -> None:
    for name in (Name("order", "42"), Name("order", "a/b")):
        assert Name.of(str(name)) == name
