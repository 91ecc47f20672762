"""Errands whose doubt policy is `lookup`, both ways. Few in a file: the sandbox imports it again for every run."""

from __future__ import annotations

from temporalio import workflow

from perdure import AppColumn
from tests.apps.contracts import INLINE, REGULAR, Errand
from tests.apps.errand import AnErrand


@workflow.defn(name="lookup")
class LookupErrand(AnErrand):
    """LookupErrand."""

    effects = (REGULAR["lookup"],)
    mirror = AppColumn("errand", column="state")

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.do_it(errand)


@workflow.defn(name="lookup-inline")
class LookupInline(AnErrand):
    """LookupErrand, inline."""

    effects = (INLINE["lookup"],)
    mirror = AppColumn("errand", column="state")

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.do_it(errand)
