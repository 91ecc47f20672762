"""Which open entities an operator means: a filter, and the rows that it matches, page by page.

Pages go in the order of lifecycle and id, which nobody's next step changes: whoever acts on each row of each page
meets every entity once at most.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from perdure._operations.bulk import Choice, Name, Seen
from perdure._operations.condition import Condition
from perdure._operations.reach import EVERYTHING, Reach
from perdure._operations.undone import read_undone
from perdure._store.finding_kinds import KINDS
from perdure._store.parked import ABOUT_DOUBT
from perdure._store.schema import Connection
from perdure._store.sql import queries
from perdure.app import App
from perdure.contracts.keys import Entity
from perdure.contracts.states import STARTING, suggestion
from perdure.errors import InvalidSetting

query = queries(__name__)

PAGE = 500
"""Rows of one page."""
_UNDOUBTED = (
    "(e.attention !~ ${} or not exists (select from perdure.effect d where d.lifecycle = e.lifecycle and d.id = e.id "
    "and d.generation = e.generation and d.status = 'in_doubt'))"
)
_ATTEMPTING = "(e.lifecycle, e.id) in (select a.lifecycle, a.id from perdure.effect a where a.status = 'attempting')"
_SOUGHT = {
    Condition.HELD: _ATTEMPTING,
    Condition.HOLDER_GONE: _ATTEMPTING,
    Condition.NOT_PICKED_UP: "(e.lifecycle, e.id) in (select a.lifecycle, a.id from perdure.outbox a)",
}
"""Where entities in a condition are found by an index, among many that are in none of them."""
_UNKNOWN = (
    "(e.lifecycle, e.id) in "
    "(select a.lifecycle, a.id from perdure.effect a where a.status in ('attempting', 'in_doubt')) and f.doubt"
)
_FOUND = (
    "exists (select from perdure.finding n "
    "where n.lifecycle = e.lifecycle and n.id = e.id and n.kind = ${} and not n.mended)"
)


@dataclass(frozen=True, slots=True)
class Selection:
    """A filter of open entities; what is None or False filters nothing.

    In a copied database, those that are left to the original are neither stuck nor need a person.

    Attributes:
        state: as it is on record.
        condition: as far as the database alone shows it.
        older_than: in its state for longer than that.
        in_doubt: an effect of its generation is in doubt, or should have ended and did not say how.
        attention: it needs a person.
        stuck: longer in its state than that allows.
        finding: a reconciliation left a finding of this kind about it for a person.
        limit: at most so many, over all pages.
        reason: why it needs a person, exactly.
        undoubted: no effect of its generation waits for a person.
        until: in its state since then at the latest; or begun by then, if nothing else here regards the state.
        reach: within it.
    """

    lifecycle: str | None = None
    state: str | None = None
    condition: Condition | None = None
    older_than: timedelta | None = None
    in_doubt: bool = False
    attention: bool = False
    tenant: str | None = None
    finding: str | None = None
    limit: int | None = None
    id: str | None = None
    reason: str | None = None
    undoubted: bool = False
    until: datetime | None = None
    reach: Reach = EVERYTHING
    stuck: bool = False

    @property
    def filters(self) -> bool:
        """Whether it means less than everything that is open."""
        return replace(self, limit=None) != Selection()

    @property
    def regards_state(self) -> bool:
        """Whether it filters by what changes with an entity's state."""
        stays = Selection(lifecycle=self.lifecycle, tenant=self.tenant, id=self.id, until=self.until, reach=self.reach)
        return replace(self, limit=None) != stays


@dataclass(frozen=True, slots=True)
class Row:
    """An open entity, as it was when it was read.

    Attributes:
        stuck_at: when its state will have, or has, lasted longer than it should.
        version: of its newest write: an act that gives this finds out whether somebody was faster.
        age: seconds in its state.
    """

    lifecycle: str
    id: str
    generation: int
    state: str
    since: datetime
    stuck_at: datetime | None
    attention: str | None
    tenant: str | None
    version: int
    condition: Condition
    age: float

    @property
    def entity(self) -> Entity:
        """Its name."""
        return Entity(self.lifecycle, self.id, self.generation)


async def choices(connection: Connection, rows: Sequence[Row], selection: Selection) -> list[Choice]:
    """Entities that a filter matches, for an act."""
    names = [Name(row.lifecycle, row.id) for row in rows]
    undone = await read_undone(connection, names)

    def seen(row: Row, name: Name) -> Seen:
        state = row.state if selection.regards_state else None
        attention = row.attention if selection.attention or selection.reason else None
        return Seen(row.generation, state, attention, undone[name])

    return [Choice(name, seen=seen(row, name)) for row, name in zip(rows, names, strict=True)]


async def choices_of(connection: Connection, entities: Sequence[Entity]) -> list[Choice]:
    """Entities that were chosen by something else than a filter, for an act on their present generations."""
    names = [Name(each.lifecycle, each.id) for each in entities]
    ids = [each.lifecycle for each in names], [each.id for each in names]
    rows = await connection.fetch(query("generations"), *ids)
    found = {Name(row["lifecycle"], row["id"]): Seen(row["generation"]) for row in rows}
    return [Choice(name, seen=found.get(name)) for name in names]


class Named(Protocol):
    """What has the name of an entity."""

    @property
    def lifecycle(self) -> str: ...
    @property
    def id(self) -> str: ...


async def select(connection: Connection, selection: Selection, after: Named | None = None) -> list[Row]:
    """One page: the rows that follow `after`, `PAGE` at most, and never more than the selection's limit."""
    return await _rows(connection, selection, after, "e.lifecycle, e.id", min(PAGE, selection.limit or PAGE))


async def next_oldest(
    connection: Connection, selection: Selection, after: tuple[datetime, str, str] | None = None
) -> list[Row]:
    """One page of those that have been in their state for longest, after a time, a lifecycle and an id."""
    sql, arguments = _sql(selection, None, query("selected"))
    if after is not None:
        places = ", ".join(f"${len(arguments) + n}" for n in (1, 2, 3))
        sql, arguments = f"{sql} and (e.since, e.lifecycle, e.id) > ({places})", [*arguments, *after]
    page = f"{sql} order by e.since, e.lifecycle, e.id limit {selection.limit or PAGE}"
    found = await connection.fetch(page, *arguments)
    return [Row(**{**row, "condition": Condition(row["condition"])}) for row in found]


async def pages(connection: Connection, selection: Selection) -> AsyncIterator[list[Row]]:
    """Every page that has rows, each read when the one before was dealt with."""
    last, left = None, selection.limit
    while left is None or left > 0:
        page = await select(connection, replace(selection, limit=left), last)
        if not page:
            return
        yield page
        last, left = page[-1], None if left is None else left - len(page)


async def oldest(connection: Connection, selection: Selection) -> list[Row]:
    """All rows, up to the limit, the longest in their state first."""
    return await _rows(connection, selection, None, "e.since, e.lifecycle, e.id", selection.limit)


async def count(connection: Connection, selection: Selection, after: Named | None = None) -> int:
    """How many it matches now that follow `after`, up to its limit."""
    plain = selection.condition is None and not selection.in_doubt
    sql, arguments = _sql(selection, after, query("selected_plain") if plain else query("selected"))
    found = f"{sql} limit {selection.limit or 'all'}"
    return int(await connection.fetchval(f"select count(*) from ({found}) s", *arguments))


async def check(connection: Connection, selection: Selection, app: App | None = None) -> None:
    """Make sure that its lifecycle, state and finding are names of something.

    Raises:
        InvalidSetting: nothing on record has that name, and the app declares none; the message suggests a name.
    """
    if selection.lifecycle is not None:
        await check_lifecycle(connection, selection.lifecycle, app, selection.reach)
    if selection.state is not None:
        known = await known_states(connection, selection.lifecycle, app, selection.reach)
        if selection.state not in known:
            of = f"of {selection.lifecycle} " if selection.lifecycle else ""
            raise InvalidSetting(f"no state {of}is named {selection.state!r}{suggestion(selection.state, known)}")
    kinds = {kind.name for kind in KINDS}
    if selection.finding is not None and selection.finding not in kinds:
        raise InvalidSetting(f"no finding is named {selection.finding!r}{suggestion(selection.finding, kinds)}")


async def check_lifecycle(connection: Connection, name: str, app: App | None = None, reach: Reach = EVERYTHING) -> None:
    """Make sure that there is such a lifecycle within reach.

    Raises:
        InvalidSetting: nothing on record has that name, and the app declares none.
    """
    known = await known_lifecycles(connection, app, reach)
    if name not in known:
        raise InvalidSetting(f"no lifecycle is named {name!r}{suggestion(name, known)}")


async def known_lifecycles(connection: Connection, app: App | None = None, reach: Reach = EVERYTHING) -> set[str]:
    """Names of lifecycles within reach: of those on record, and of those that the app declares."""
    found = {row["lifecycle"] for row in await connection.fetch(query("lifecycles_on_record"))}
    return {each for each in found.union(app.lifecycles if app else ()) if reach.includes_some(each)}


async def known_states(
    connection: Connection, lifecycle: str | None, app: App | None = None, reach: Reach = EVERYTHING
) -> set[str]:
    """Names of states: of those that entities are or lately were in, and of those that the app declares."""
    of = await known_lifecycles(connection, app, reach) if lifecycle is None else {lifecycle}
    found = {STARTING, *(row["state"] for row in await connection.fetch(query("states_on_record"), sorted(of)))}
    if app is not None:
        found |= {name for each in of & set(app.lifecycles) for name in app.lifecycles[each].declared.names}
    return found


async def _rows(
    connection: Connection, selection: Selection, after: Named | None, order: str, limit: int | None
) -> list[Row]:
    sql, arguments = _sql(selection, after, query("selected"))
    found = await connection.fetch(f"{sql} order by {order} limit {limit or 'all'}", *arguments)
    return [Row(**{**row, "condition": Condition(row["condition"])}) for row in found]


def _sql(selection: Selection, after: Named | None, among: str) -> tuple[str, list[Any]]:
    since = "e.since" if selection.regards_state else "e.created_at"
    filters: dict[str, Any] = {
        "e.lifecycle = ${}": selection.lifecycle,
        "e.id = ${}": selection.id,
        "e.state = ${}": selection.state,
        "e.tenant = ${}": selection.tenant,
        "c.condition = ${}": selection.condition and selection.condition.value,
        _FOUND: selection.finding,
        "e.since < now() - ${}::interval": selection.older_than,
        "e.attention = ${}": selection.reason,
        _UNDOUBTED: ABOUT_DOUBT if selection.undoubted else None,
        # A time in the future is one of before the clock went back.
        f"({since} <= ${{0}} or {since} > clock_timestamp())": selection.until,
    }
    given = {clause: value for clause, value in filters.items() if value is not None}
    clauses, arguments = [clause.format(n) for n, clause in enumerate(given, 1)], list(given.values())
    if after is not None:
        arguments += [after.lifecycle, after.id]
        clauses.append(f"(e.lifecycle, e.id) > (${len(given) + 1}, ${len(given) + 2})")
    within, pairs = selection.reach.sql("e.lifecycle", "e.tenant", len(arguments))
    clauses, arguments = [*clauses, *within], [*arguments, *pairs]
    clauses += (
        [clause for condition, clause in _SOUGHT.items() if condition is selection.condition]
        + [_UNKNOWN] * selection.in_doubt
        + ["e.attention is not null and e.left_to is null"] * selection.attention
        + ["e.stuck_at < now() and e.left_to is null"] * selection.stuck
    )
    return " ".join([among, "where", " and ".join(clauses) or "true"]), arguments
