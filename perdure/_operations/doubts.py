"""Effects in doubt, of open entities and of entities that ended with an effect in doubt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from perdure._operations.bulk import Name
from perdure._operations.reach import EVERYTHING, Reach
from perdure._operations.selection import PAGE, Named
from perdure._store.parked import ABOUT_DOUBT
from perdure._store.schema import Connection
from perdure._store.sql import queries
from perdure._text.shown import command
from perdure.contracts.keys import Key

query = queries(__name__)


@dataclass(frozen=True, slots=True)
class DoubtSelection:
    """A filter of effects in doubt; what is None or False filters nothing.

    Attributes:
        ended: only those whose entity has ended.
        effect: name of the contract, or with the suffix after a slash.
        state: the one that the entity is in, or ended in.
        limit: at most so many.
        waiting: only those that nothing but a person settles, of open entities.
        why: with this reason; `""` = without one.
        until: whose last attempt was begun by then.
        keys: only these.
        reach: within it.
    """

    lifecycle: str | None = None
    ended: bool = False
    effect: str | None = None
    state: str | None = None
    limit: int | None = None
    waiting: bool = False
    why: str | None = None
    until: datetime | None = None
    keys: tuple[str, ...] | None = None
    reach: Reach = EVERYTHING


@dataclass(frozen=True, slots=True)
class Doubt:
    """One effect in doubt.

    Attributes:
        since: when the last attempt was begun.
        ended: whether its entity has ended, so that no look-up and no retry follows.
        state: of the entity.
        waits_for_person: nothing but `perdure resolve` settles it. Else its doubt policy is at work.
        tenant: of the entity.
        deadline: when the last attempt must have ended.
    """

    lifecycle: str
    id: str
    generation: int
    effect: str
    key: str
    status: str
    attempts: int
    since: datetime
    why: str | None
    ended: bool
    state: str
    waits_for_person: bool
    tenant: str | None
    deadline: datetime

    @property
    def token(self) -> str:
        """The short form of the key, where the other side was given that."""
        return Key(self.key).token

    @property
    def resolve(self) -> str | None:
        """The command that settles it, to be completed; None where its policy is at work."""
        if not self.waits_for_person:
            return None
        more = ("--effect", self.key, "--as", "OUTCOME", "--by", "YOU", "--note", "WHY")
        return command("resolve", self.lifecycle, self.id, *more)


async def read_doubts(connection: Connection, selection: DoubtSelection) -> list[Doubt]:
    """Those that it matches, the oldest first."""
    sql, arguments = _sql(selection)
    rows = await connection.fetch(f"{sql} order by f.attempt_at, f.key limit {selection.limit or 'all'}", *arguments)
    return [Doubt(**row) for row in rows]


async def next_doubts(
    connection: Connection, selection: DoubtSelection, after: tuple[datetime, str] | None = None
) -> list[Doubt]:
    """Those that follow `after`, the deadline and the key of one, the oldest first; up to the limit.

    They come in the order of an index, so a page costs what it shows.
    """
    sql, arguments = _sql(selection)
    if after is not None:
        at, key = f"${len(arguments) + 1}", f"${len(arguments) + 2}"
        sql += f" and f.deadline >= {at} and (f.deadline, f.key) > ({at}, {key})"
        arguments = [*arguments, *after]
    page = f"{sql} order by f.deadline, f.key limit {selection.limit or PAGE}"
    return [Doubt(**row) for row in await connection.fetch(page, *arguments)]


async def by_entity(
    connection: Connection, selection: DoubtSelection, names: Sequence[Named]
) -> dict[Name, list[Doubt]]:
    """Those of some entities, of which some may have none."""
    sql, arguments = _sql(selection)
    of = f"(${len(arguments) + 1}::text[], ${len(arguments) + 2}::text[])"
    sql += f" and (f.lifecycle, f.id) in (select * from unnest{of})"
    found: dict[Name, list[Doubt]] = {Name(each.lifecycle, each.id): [] for each in names}
    for row in await connection.fetch(sql, *arguments, [each.lifecycle for each in found], [each.id for each in found]):
        found[Name(row["lifecycle"], row["id"])].append(Doubt(**row))
    return found


async def find_named(connection: Connection, selection: DoubtSelection, names: Sequence[str]) -> dict[str, list[Doubt]]:
    """Those that it matches, by the names among `names` that mean them: the key, the token, the id of the entity, or
    `LIFECYCLE/ID`."""
    sql, arguments = _sql(selection)
    wanted = f"any(${len(arguments) + 1}::text[])"
    token = "left(encode(sha256(convert_to(f.key, 'UTF8')), 'hex'), 40)"
    sql += f" and (f.key = {wanted} or f.id = {wanted} or f.lifecycle || '/' || f.id = {wanted} or {token} = {wanted})"
    known, found = set(names), dict[str, list[Doubt]]()
    for row in await connection.fetch(sql, *arguments, list(known)):
        doubt = Doubt(**row)
        for name in {doubt.key, doubt.token, doubt.id, f"{doubt.lifecycle}/{doubt.id}"} & known:
            found.setdefault(name, []).append(doubt)
    return found


async def count_doubts(connection: Connection, selection: DoubtSelection, most: int | None = None) -> int:
    """How many it matches, whatever its limit.

    Args:
        most: so many are counted.
    """
    sql, arguments = _sql(selection)
    return int(await connection.fetchval(f"select count(*) from ({sql} limit {most or 'all'}) d", *arguments))


async def select_doubtful(connection: Connection, selection: DoubtSelection, after: Named | None = None) -> list[Doubt]:
    """One page of entities that have some, each with its oldest, in the order of lifecycle and id."""
    sql, arguments = _doubtful(selection, after)
    page = f"{sql} order by d.lifecycle, d.id, d.since limit {min(PAGE, selection.limit or PAGE)}"
    return [Doubt(**row) for row in await connection.fetch(page, *arguments)]


async def count_doubtful(connection: Connection, selection: DoubtSelection, after: Named | None = None) -> int:
    """How many entities follow `after` that have some, up to its limit."""
    sql, arguments = _doubtful(selection, after)
    found = f"{sql} order by d.lifecycle, d.id limit {selection.limit or 'all'}"
    return int(await connection.fetchval(f"select count(*) from ({found}) s", *arguments))


def _doubtful(selection: DoubtSelection, after: Named | None) -> tuple[str, list[Any]]:
    sql, arguments = _sql(selection)
    behind = ""
    if after is not None:
        behind = f" where (d.lifecycle, d.id) > (${len(arguments) + 1}, ${len(arguments) + 2})"
        arguments = [*arguments, after.lifecycle, after.id]
    return f"select distinct on (d.lifecycle, d.id) d.* from ({sql}) d{behind}", arguments


def _sql(selection: DoubtSelection) -> tuple[str, list[Any]]:
    grouped = selection.why is not None and "/" not in (selection.effect or "/")  # an index has such a group in order
    filters = {
        "f.lifecycle = ${}": selection.lifecycle,
        "split_part(f.effect, '/', 1) = ${}": selection.effect if grouped else None,
        "(f.effect = ${0} or starts_with(f.effect, ${0} || '/'))": None if grouped else selection.effect,
        "coalesce(e.state, i.final) = ${}": selection.state,
        "md5(coalesce(f.why, '')) = md5(${0}) and coalesce(f.why, '') = ${0}": selection.why,
        "f.attempt_at <= ${}": selection.until,
        "f.key = any(${})": selection.keys,
    }
    given = {clause: value for clause, value in filters.items() if value is not None}
    clauses = [clause.format(n) for n, clause in enumerate(given, 2)] + ["e.lifecycle is null"] * selection.ended
    clauses += ["e.attention ~ $1 and f.status = 'in_doubt'"] * selection.waiting
    within, pairs = selection.reach.sql("f.lifecycle", "i.tenant", 1 + len(given))
    return " and ".join([query("doubts"), *clauses, *within]), [ABOUT_DOUBT, *given.values(), *pairs]
