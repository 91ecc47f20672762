"""Random lifecycles, as the exploration writes them, on real servers, in an older and in a newer build."""

from __future__ import annotations

import random

from temporalio import workflow

from perdure._workflow.lifecycle import Lifecycle
from perdure.contracts.app_column import AppColumn
from perdure.testing.exploring.authoring import Author
from perdure.testing.exploring.contracts import COUNT, contracts
from perdure.testing.exploring.interpreter import Interpreter
from perdure.testing.exploring.other_side import SECRET
from perdure.testing.exploring.programs import Place, Program
from tests.chaos.plan import GENERATED

PACE = 0.2
"""How many seconds it takes here what takes one in virtual time: a call may take a second."""
SETTLE = 4 * PACE
"""Seconds: the `visibility_delay` of its look-ups."""
WINDOW = 60 * PACE
"""Seconds for which the other side drops repeats, where an effect declares that it does."""


@workflow.defn(name=GENERATED)
class Generated(Interpreter, Lifecycle[Program, Place]):
    """The interpreter, of an older build."""

    pace = PACE
    effects = tuple(contracts(0, PACE).values())
    steps = (COUNT,)
    mirror = AppColumn("booking", "state")

    @workflow.run
    async def run(self, given: Program) -> None:
        """See the base class."""
        await self._interpret(given)


@workflow.defn(name=GENERATED)
class GeneratedLater(Interpreter, Lifecycle[Program, Place]):
    """The interpreter, of a newer build: its effects have other terms."""

    pace = PACE
    effects = tuple(contracts(1, PACE).values())
    steps = (COUNT,)
    mirror = AppColumn("booking", "state")

    @workflow.run
    async def run(self, given: Program) -> None:
        """See the base class."""
        await self._interpret(given)


def program(seed: int, entity_id: str) -> Program:
    """What an entity does: a pure function of the seed of the plan."""
    return Author(random.Random(f"program {seed} {entity_id}")).program(SECRET)
