"""A `Step` is repeated until it succeeds, leaves no record, and shows no personal data."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio import workflow

from perdure import App, Lifecycle, Step, StepContext, state
from perdure._workflow.declaring import check_effects
from perdure.errors import DeclarationError
from perdure.testing import After, WorkerLost, rehearse
from perdure.testing.script import ScriptError

COUNT = Step[int, str]("count-it")


class Way(StrEnum):
    NEW = "new"
    DONE = state("done", final=True)


@workflow.defn(name="stepping")
class Stepping(Lifecycle[int, Way]):
    """Takes as many steps as it is given."""

    steps = (COUNT,)

    @workflow.run
    async def run(self, given: int) -> None:
        told = [await self.step(COUNT, number) for number in range(given)]
        await self.enter(Way.DONE, why=" ".join(told))


@COUNT.takes
async def count_it(number: int, occasion: StepContext) -> str:
    return str(number)


async def test_each_step_is_taken_and_leaves_no_record() -> None:
    seen = await rehearse(Stepping, 100, {COUNT: [str(n) for n in range(100)]})
    assert (seen.end, seen.inputs(COUNT), seen.effects) == (Way.DONE, list(range(100)), {})


@pytest.mark.parametrize("problem", [RuntimeError("+12025550100"), TimeoutError(), WorkerLost()], ids=repr)
async def test_it_is_taken_again_until_it_succeeds(problem: Any) -> None:
    seen = await rehearse(Stepping, 1, {COUNT: [problem, problem, problem, "done"]})
    assert (seen.end, seen.calls(COUNT)) == (Way.DONE, 4)


async def test_a_body_gets_the_entity() -> None:
    async def body(number: int, occasion: StepContext) -> str:
        return f"{occasion.entity} {number}"

    seen = await rehearse(Stepping, 2, {COUNT: [body, After(timedelta(seconds=1), body)]}, entity_id="7")
    assert seen.took == timedelta(seconds=1)
    assert seen.calls(COUNT) == 2


async def test_a_script_that_returns_something_else_is_refused() -> None:
    with pytest.raises(ScriptError, match="no receipt"):
        await rehearse(Stepping, 1, {COUNT: [5]})


def test_a_step_needs_a_body() -> None:
    with pytest.raises(DeclarationError, match=r"Step\('count-it'\) of 'stepping' has no body.*\.takes"):
        App(lifecycles=[Stepping], effects=[])
    assert App(lifecycles=[Stepping], effects=[count_it]).contract("count-it") is COUNT


@workflow.defn(name="undeclared")
class Undeclared(Lifecycle[int, Way]):
    """Takes another step."""

    @workflow.run
    async def run(self, given: int) -> None:
        await self.step(COUNT, given)


async def test_a_step_that_is_not_declared_is_refused() -> None:
    with pytest.raises(DeclarationError, match="not in its `steps`"):
        await rehearse(Undeclared, 1, {})


def test_two_steps_of_one_name_are_refused() -> None:
    twice = SimpleNamespace(__name__="Twice", effects=(), steps=(COUNT, Step[int, str]("count-it")))
    with pytest.raises(DeclarationError, match="'count-it' is declared twice"):
        check_effects(cast("type[Any]", twice))
