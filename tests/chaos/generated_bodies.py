"""The bodies of generated lifecycles: the chaos' other side does their effects. And their apps, one for each build."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from perdure import App, Attempt, Client, LookupContext, Step
from perdure._workflow.lifecycle import Lifecycle
from perdure.app import contracts_of
from perdure.contracts.effects import Effect, Lookup
from perdure.contracts.sizes import LARGEST_RECEIPT
from perdure.contracts.steps import StepContext
from perdure.testing.exploring.contracts import COUNT, SCAN, Scan, Scanned
from perdure.testing.exploring.interpreter import Interpreter
from perdure.testing.exploring.programs import FOUND, TELL, Child, starter_of
from tests.apps.calls import do_booking, find_booking
from tests.apps.contracts import Booking
from tests.chaos.generated import Generated, GeneratedLater, Started, StartedLater, lifecycle_of

_FAILING = 0.2
"""How likely a step fails."""
_PATIENCE = 1.5
"""Seconds that a step waits for its database."""
_TOO_LARGE = LARGEST_RECEIPT + 1000


def told_by(entity_id: str) -> str:
    """The message of an entity to the one that has started it."""
    return f"message of {entity_id}"


async def _counts(given: str, context: StepContext) -> str:
    if random.random() < _FAILING:
        raise RuntimeError(f"the step failed for {given}")
    return given


async def _starts(child: Child, context: StepContext) -> str:
    async with _application() as connection:
        await connection.execute("insert into booking (id) values ($1) on conflict do nothing", child.id)
        await Client().start(child.lifecycle, child.id, child.program, connection=connection)
    return child.id


async def _tells(entity_id: str, context: StepContext) -> str:
    starter, text = starter_of(entity_id), told_by(entity_id)
    async with _application() as connection:
        await Client().signal(lifecycle_of(starter), starter, "note", text, message_id=text, connection=connection)
    return text


@asynccontextmanager
async def _application() -> AsyncIterator[Any]:
    """A transaction of the application."""
    url = os.environ["PERDURE_DATABASE_URL"]
    connection = await asyncpg.connect(url, timeout=_PATIENCE, command_timeout=_PATIENCE)
    try:
        async with connection.transaction():
            yield connection
    finally:
        connection.terminate()


_STEPS: dict[Step[Any, Any], Callable[[Any, StepContext], Coroutine[Any, Any, str]]]
_STEPS = {COUNT: _counts, FOUND: _starts, TELL: _tells}


def _body(contract: Effect[Any, Any] | Lookup[Any, Any] | Step[Any, Any], build: int) -> Callable[..., Any]:
    async def does(given: str, attempt: Attempt) -> Any:
        number = str((await do_booking(Booking(), attempt)).number)
        if contract.identity != SCAN:
            return number
        image = "x" * _TOO_LARGE if given.endswith("large") else ""
        return Scanned(id=number) if build else Scan(id=number, image=image)

    async def finds(given: str, question: LookupContext) -> str | None:
        ticket = await find_booking(Booking(), question)
        return None if ticket is None else str(ticket.number)

    if isinstance(contract, Effect):
        return contract.performs(does)
    return contract.answers(finds) if isinstance(contract, Lookup) else contract.takes(_STEPS[contract])


def _app(lifecycle: type[Interpreter], *others: type[Lifecycle[Any, Any]]) -> App:
    bodies = [_body(contract, lifecycle.build) for contract in contracts_of(lifecycle)]
    return App([lifecycle, *others], bodies)


older, newer = _app(Generated, Started), _app(GeneratedLater, StartedLater)
