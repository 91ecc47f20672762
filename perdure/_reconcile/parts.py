"""The parts of a reconciliation, in the order in which they are done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from perdure._reconcile.context import Context
from perdure._reconcile.entities import open_entities
from perdure._reconcile.missing import missing
from perdure._reconcile.schedule import check_schedule
from perdure._reconcile.undelivered import undelivered
from perdure._reconcile.unrecorded import unrecorded
from perdure._retention.keeping import keep_months
from perdure._store import finding_kinds as kinds
from perdure._store.finding_kinds import Kind


@dataclass(frozen=True, slots=True)
class Part:
    """One part; it can be done alone, and twice.

    Attributes:
        name: of its activity, behind `perdure.reconciliation.`.
        does: given the context, and the last thing that it told `context.beat` where it goes on; may return how many
            open entities it has looked at.
        kinds: what it finds: a finding of these that it does not see again is over.
        of_one: whether it can look at one entity alone.
    """

    name: str
    does: Callable[[Context, object], Awaitable[object]]
    kinds: tuple[Kind, ...]
    of_one: bool = True


async def months(context: Context, cursor: object) -> None:
    """Make the months to come; export and drop what is older than wanted."""
    kept = await keep_months(context.settings, context.pool)
    for problem in kept.problems:
        await context.findings.report(kinds.MONTHS, None, problem, "perdure help finding-months", about=problem[:100])


PARTS = {
    each.name: each
    for each in (
        Part("schedule", check_schedule, (kinds.SCHEDULE,), of_one=False),
        Part("undelivered", undelivered, (kinds.UNDELIVERED,)),
        Part(
            "open-entities",
            open_entities,
            (
                *(kinds.BEHIND, kinds.UNFINISHED, kinds.ENDED, kinds.VANISHED),
                *(kinds.STUCK, kinds.PARKED, kinds.UNREADABLE, kinds.FAILING),
            ),
        ),
        Part("missing", missing, (kinds.MISSING,), of_one=False),
        Part("unrecorded", unrecorded, (kinds.UNRECORDED, kinds.OUTLIVED)),
        Part("months", months, (kinds.MONTHS,), of_one=False),
    )
}
"""All of them, by their names."""
