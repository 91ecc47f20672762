"""Errands whose doubt policy is `escalate`, both ways. Few in a file: the sandbox imports it again for every run."""

from __future__ import annotations

from temporalio import workflow

from perdure import AppColumn
from tests.apps.contracts import INLINE, REGULAR, Errand
from tests.apps.errand import AnErrand


@workflow.defn(name="escalate")
class Escalate(AnErrand):
    """Escalate."""

    effects = (REGULAR["escalate"],)
    mirror = AppColumn("errand", column="state")

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.do_it(errand)


@workflow.defn(name="escalate-inline")
class EscalateInline(AnErrand):
    """Escalate, inline."""

    effects = (INLINE["escalate"],)
    mirror = AppColumn("errand", column="state")

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.do_it(errand)
