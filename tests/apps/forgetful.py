"""An app with a mistake that only a crash shows: its look-up never finds anything."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow

from perdure import App, AppColumn, Attempt, Effect, Lookup, LookupContext
from perdure import AskFirst as ByLookUp
from tests.apps.calls import do_errand
from tests.apps.contracts import QUICK, Errand, Ticket
from tests.apps.errand import AnErrand

FIND = Lookup[Errand, Ticket]("find-nothing", timeout=timedelta(seconds=5))
DO = Effect[Errand, Ticket](
    "do-forgetful",
    timeout=timedelta(seconds=2),
    doubt=ByLookUp(FIND, visibility_delay=timedelta(seconds=0.2), every=timedelta(seconds=0.2)),
    retry=QUICK,
    heartbeat_timeout=timedelta(seconds=2),
)


@FIND.answers
async def find_nothing(errand: Errand, question: LookupContext) -> Ticket | None:
    """Looks in the wrong place."""
    return None


@DO.performs
async def do_forgetful(errand: Errand, attempt: Attempt) -> Ticket:
    """Does it."""
    return await do_errand(errand, attempt)


@workflow.defn(name="forgetful")
class Forgetful(AnErrand):
    """Trusts that look-up."""

    effects = (DO,)
    mirror = AppColumn("errand", column="state")

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.do_it(errand)


app = App(lifecycles=[Forgetful], effects=[do_forgetful, find_nothing])
