"""Which finished entities an operator means: a filter, and the rows that it matches, page by page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from perdure._operations.bulk import Choice, Name, Seen
from perdure._operations.reach import EVERYTHING, Reach
from perdure._operations.selection import PAGE, Named
from perdure._store.schema import Connection
from perdure._store.sql import queries

query = queries(__name__)

_DOUBT = (
    "exists (select from perdure.effect x where x.lifecycle = f.lifecycle and x.id = f.id "
    "and x.generation = f.generation and (x.status = 'in_doubt' or (x.status = 'attempting' and x.deadline < now())))"
)


@dataclass(frozen=True, slots=True)
class FinishedSelection:
    """A filter of finished entities whose month is still there; what is None filters nothing.

    Attributes:
        state: the final one.
        since: finished then or later.
        before: finished before then.
        until: finished by then.
        in_doubt: one of its effects is in doubt still.
        limit: at most so many, over all pages.
        id: of one entity.
        reach: within it.
    """

    lifecycle: str | None = None
    state: str | None = None
    since: datetime | None = None
    before: datetime | None = None
    tenant: str | None = None
    in_doubt: bool = False
    limit: int | None = None
    id: str | None = None
    reach: Reach = EVERYTHING
    until: datetime | None = None

    @property
    def filters(self) -> bool:
        """Whether it means less than everything that is finished."""
        return replace(self, limit=None) != FinishedSelection()


@dataclass(frozen=True, slots=True)
class FinishedRow:
    """A finished entity."""

    lifecycle: str
    id: str
    generation: int
    state: str
    finished_at: datetime

    @property
    def choice(self) -> Choice:
        """It, for an act."""
        return Choice(Name(self.lifecycle, self.id), seen=Seen(self.generation))


async def select_finished(
    connection: Connection, selection: FinishedSelection, after: Named | None = None
) -> list[FinishedRow]:
    """One page: the rows that follow `after`, in the order of lifecycle and id."""
    sql, arguments = _sql(selection, after)
    page = f"{sql} order by f.lifecycle, f.id limit {min(PAGE, selection.limit or PAGE)}"
    return [FinishedRow(**row) for row in await connection.fetch(page, *arguments)]


async def newest_finished(connection: Connection, selection: FinishedSelection) -> list[FinishedRow]:
    """All rows, up to the limit, those that finished last first."""
    sql, arguments = _sql(selection, None)
    order = "f.finished_at desc, f.lifecycle, f.id"
    rows = await connection.fetch(f"{sql} order by {order} limit {selection.limit or 'all'}", *arguments)
    return [FinishedRow(**row) for row in rows]


async def count_finished(connection: Connection, selection: FinishedSelection, after: Named | None = None) -> int:
    """How many of it follow `after`, up to its limit."""
    sql, arguments = _sql(selection, after)
    found = f"{sql} limit {selection.limit or 'all'}"
    return int(await connection.fetchval(f"select count(*) from ({found}) s", *arguments))


def _sql(selection: FinishedSelection, after: Named | None) -> tuple[str, list[Any]]:
    """Only what filters: so months are left out, and a page begins where the index has it."""
    filters = {
        "f.lifecycle = ${}": selection.lifecycle,
        "f.state = ${}": selection.state,
        "f.finished_at >= ${}": selection.since,
        "f.finished_at < ${}": selection.before,
        # A time in the future is one of before the clock went back.
        "(f.finished_at <= ${0} or f.finished_at > clock_timestamp())": selection.until,
        "f.tenant = ${}": selection.tenant,
        "f.id = ${}": selection.id,
    }
    given = {clause: value for clause, value in filters.items() if value is not None}
    clauses, arguments = [clause.format(n) for n, clause in enumerate(given, 1)], list[Any](given.values())
    if after is not None:
        arguments += [after.lifecycle, after.id]
        clauses.append(f"(f.lifecycle, f.id) > (${len(given) + 1}, ${len(given) + 2})")
    within, pairs = selection.reach.sql("f.lifecycle", "f.tenant", len(arguments))
    clauses, arguments = [*clauses, *within], [*arguments, *pairs]
    clauses += [_DOUBT] * selection.in_doubt
    return " ".join([query("finished_chosen"), "where", " and ".join(clauses) or "true"]), arguments
