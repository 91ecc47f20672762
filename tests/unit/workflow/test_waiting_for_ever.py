"""A wait until the end of all time is a wait like any other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum

import pytest
from temporalio import workflow

from perdure import Lifecycle, state
from perdure.testing import START, At, rehearse


class Place(StrEnum):
    """States."""

    OPEN = "open"
    CLOSED = state("closed", final=True)


@workflow.defn(name="waiting-for-ever")
class WaitingForEver(Lifecycle[str, Place]):
    """Waits for a message, without a limit."""

    def __init__(self) -> None:
        self.words: list[str] = []

    @workflow.signal
    def say(self, word: str) -> None:
        """A message."""
        self.words.append(word)

    @workflow.run
    async def run(self, given: str) -> None:
        """See the class."""
        assert await self.wait_for(lambda: bool(self.words), until=datetime.max.replace(tzinfo=UTC))
        await self.enter(Place.CLOSED)


@pytest.mark.parametrize("number", range(4))
async def test_a_wait_until_the_largest_time_of_python_lasts_until_its_message(number: int) -> None:
    """The float of the seconds until then is too large or too small by some microseconds."""
    start = START + timedelta(microseconds=number * 7)
    message = At(timedelta(days=1), "say", "hello")
    seen = await rehearse(WaitingForEver, "given", {}, messages=[message], start=start)
    assert (seen.end, seen.took) == (Place.CLOSED, timedelta(days=1))
