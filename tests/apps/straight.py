"""A booking in as few writes as can be: its last state is committed with the outcome."""

from __future__ import annotations

from enum import StrEnum

from temporalio import workflow

from perdure import App, AppColumn, Done, Lifecycle, state
from tests.apps.calls import bound
from tests.apps.contracts import INLINE, REGULAR, Booking


class Way(StrEnum):
    """Where it is."""

    PENDING = "pending"
    DOING = "doing"
    DONE = state("done", final=True)


@workflow.defn(name="straight")
class Straight(Lifecycle[Booking, Way]):
    """As an activity."""

    effects = (REGULAR["lookup"],)
    mirror = AppColumn("booking", column="state")

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """Do it."""
        assert isinstance(await self.perform(self.effects[0], booking, entering=Way.DOING, then=Way.DONE), Done)


@workflow.defn(name="straight-inline")
class StraightInline(Lifecycle[Booking, Way]):
    """Inline."""

    effects = (INLINE["lookup"],)
    mirror = AppColumn("booking", column="state")

    @workflow.run
    async def run(self, booking: Booking) -> None:
        """Do it."""
        assert isinstance(await self.perform(self.effects[0], booking, entering=Way.DOING, then=Way.DONE), Done)


_ways = {"lookup": REGULAR["lookup"]}, {"lookup": INLINE["lookup"]}
app = App(lifecycles=[Straight, StraightInline], effects=[each for way in _ways for each in bound(way)])
