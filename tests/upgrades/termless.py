"""Editions of the errands that release 0.1.0 recorded: its runs carry no terms of their effects."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from perdure import Effect, Repeat, Retry, seconds
from tests.apps.contracts import QUICK, REGULAR, Errand, Ticket
from tests.apps.errands import Escalate, Lookup


def _contract(policy: str, **more: Any) -> Effect[Errand, Ticket]:
    usual: dict[str, Any] = {"timeout": seconds(2), "doubt": REGULAR[policy].doubt, "retry": QUICK}
    return Effect[Errand, Ticket](f"do-{policy}", **(usual | more))


@workflow.defn(name="escalate")
class Repeating(Escalate):
    """Another policy."""

    effects = (_contract("escalate", doubt=Repeat()),)

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.do_it(errand)


@workflow.defn(name="escalate")
class Inline(Escalate):
    """In the workflow's own worker."""

    effects = (_contract("escalate", inline=True),)

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.do_it(errand)


@workflow.defn(name="lookup")
class GivingUp(Lookup):
    """One failure is enough."""

    effects = (_contract("lookup", retry=Retry(initial=seconds(0.1), maximum=1)),)

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.do_it(errand)
