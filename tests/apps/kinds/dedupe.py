"""Errands whose doubt policy is `dedupe`, both ways. Few in a file: the sandbox imports it again for every run."""

from __future__ import annotations

from temporalio import workflow

from perdure import AppColumn
from tests.apps.contracts import INLINE, REGULAR, Errand
from tests.apps.errand import AnErrand


@workflow.defn(name="dedupe")
class Dedupe(AnErrand):
    """Dedupe."""

    effects = (REGULAR["dedupe"],)
    mirror = AppColumn("errand", column="state")

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.do_it(errand)


@workflow.defn(name="dedupe-inline")
class DedupeInline(AnErrand):
    """Dedupe, inline."""

    effects = (INLINE["dedupe"],)
    mirror = AppColumn("errand", column="state")

    @workflow.run
    async def run(self, errand: Errand) -> None:
        """See the base class."""
        await self.do_it(errand)
