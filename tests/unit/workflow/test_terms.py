"""Terms of effects and their aliases are kept in a history; a run that can't go on looks again by itself."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, model_validator
from temporalio import workflow

from perdure import AskFirst, Dedupe, Done, Effect, Escalate, Lifecycle, Lookup, Repeat, RetryPolicy, state
from perdure._wire.terms import Terms, terms_of
from perdure.contracts.policies import DoubtPolicy
from perdure.errors import DeclarationError
from perdure.testing import rehearse

FIND = Lookup[str, int]("find-it", timeout=timedelta(seconds=3), inline=True)


@pytest.mark.parametrize(
    "doubt",
    [
        Repeat(),
        Escalate(),
        Dedupe(window=timedelta(hours=24)),
        Dedupe(window=timedelta(hours=1), margin=timedelta(seconds=5), otherwise=Repeat()),
        AskFirst(FIND, visibility_delay=timedelta(seconds=30)),
        AskFirst(
            FIND,
            visibility_delay=timedelta(seconds=1),
            misses=3,
            tries=9,
            every=timedelta(minutes=1),
            otherwise=Repeat(),
        ),
    ],
    ids=str,
)
def test_terms_come_out_of_a_history_as_the_contract_was(doubt: DoubtPolicy[str, int]) -> None:
    effect = Effect[str, int](
        "do-it", timeout=timedelta(seconds=7), doubt=doubt, retry=RetryPolicy(maximum_attempts=4), inline=True
    )
    back = Terms.model_validate_json(terms_of(effect).model_dump_json())
    assert (back.name, back.inline, back.timeout, back.retry) == (
        "do-it",
        True,
        timedelta(seconds=7),
        RetryPolicy(maximum_attempts=4),
    )
    found = back.doubt
    if isinstance(doubt, AskFirst):
        assert isinstance(found, AskFirst)
        assert (found.lookup.name, found.lookup.inline, found.lookup.timeout) == ("find-it", True, timedelta(seconds=3))
        found = AskFirst(FIND, found.visibility_delay, found.misses, found.tries, found.every, found.otherwise)
    assert found == doubt


def test_terms_that_are_as_usual_take_little_room() -> None:
    effect = Effect[str, int]("do-it", timeout=timedelta(seconds=20), doubt=Escalate())
    assert terms_of(effect).model_dump_json() == '{"name":"do-it","timeout":"PT20S","in_doubt":{"kind":"escalate"}}'


@pytest.mark.parametrize(
    ("aliases", "why"),
    [
        ("old", r"must be a tuple: \('old',\)"),
        (("now",), "other names"),
        (("a", "a"), "other names"),
    ],
)
def test_former_names_that_can_not_be_are_refused(aliases: Any, why: str) -> None:
    with pytest.raises(DeclarationError, match=why):
        Effect[str, int]("now", timeout=timedelta(seconds=1), doubt=Repeat(), aliases=aliases)


class Shy(BaseModel):
    """A receipt that can be read at the third try. Each of the first two validates it as Python values and as JSON."""

    number: int
    tries: ClassVar[int] = 0

    @model_validator(mode="before")
    @classmethod
    def _counts(cls, data: Any) -> Any:
        if isinstance(data, dict):
            cls.tries += 1
            if cls.tries < 5:
                raise ValueError("not yet")
        return data


class Place(StrEnum):
    """Where it is."""

    HERE = "here"
    THERE = state("there", final=True)


GO = Effect[str, Shy]("go", timeout=timedelta(seconds=1), doubt=Escalate())


@workflow.defn(name="goes")
class Goes(Lifecycle[str, Place]):
    """Goes there."""

    effects = (GO,)

    @workflow.run
    async def run(self, given: str) -> None:
        """Go."""
        end = await self.perform(GO, given)
        assert isinstance(end, Done)
        await self.enter(Place.THERE)


async def test_an_unreadable_record_is_tried_again_after_ten_seconds() -> None:
    Shy.tries = 0
    seen = await rehearse(Goes, "x", {GO: [Shy.model_construct(number=1)]})
    assert (seen.end, seen.calls(GO), seen.took) == (Place.THERE, 1, timedelta(seconds=10))
