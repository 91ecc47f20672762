"""The bodies of generated lifecycles: the chaos' other side does their effects. And their apps, one for each build."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from perdure import App, Attempt, LookupContext, Step
from perdure._workflow.lifecycle import Lifecycle
from perdure.app import contracts_of
from perdure.contracts.effects import Effect, Lookup
from perdure.contracts.steps import StepContext
from tests.apps.calls import do_booking, find_booking
from tests.apps.contracts import Booking
from tests.chaos.generated import Generated, GeneratedLater

_FAILING = 0.2
"""How likely a step fails."""


def _body(contract: Effect[Any, Any] | Lookup[Any, Any] | Step[Any, Any]) -> Callable[..., Any]:
    async def does(given: str, attempt: Attempt) -> str:
        return str((await do_booking(Booking(), attempt)).number)

    async def finds(given: str, question: LookupContext) -> str | None:
        ticket = await find_booking(Booking(), question)
        return None if ticket is None else str(ticket.number)

    async def takes(given: str, occasion: StepContext) -> str:
        if random.random() < _FAILING:
            raise RuntimeError(f"the step failed for {given}")
        return given

    if isinstance(contract, Effect):
        return contract.performs(does)
    return contract.answers(finds) if isinstance(contract, Lookup) else contract.takes(takes)


def _app(lifecycle: type[Lifecycle[Any, Any]]) -> App:
    return App([lifecycle], [_body(contract) for contract in contracts_of(lifecycle)])


older, newer = _app(Generated), _app(GeneratedLater)
