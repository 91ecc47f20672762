"""The parts of a reconciliation, in order of execution."""

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
    """One part. It can be executed alone, and twice.

    Attributes:
        name: name of its activity, after `perdure.reconciliation.`.
        does: the function of the part. It takes the context, and the last value that it passed to `context.beat` if it
            continues. It may return the number of checked open entities.
        kinds: kinds of its findings. An earlier finding of these kinds that it does not see again is over.
        of_one: whether the part can check one entity alone.
    """

    name: str
    does: Callable[[Context, object], Awaitable[object]]
    kinds: tuple[Kind, ...]
    of_one: bool = True


async def months(context: Context, cursor: object) -> None:
    """Make the partitions of coming months; export and drop the months beyond the retention."""
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
"""All parts, by name."""
