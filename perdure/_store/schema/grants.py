"""The statements that give a role its rights, by what was granted to it before and what is granted now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import asyncpg

from perdure._store.schema import Connection
from perdure._store.schema.kinds import DISPATCHED, RIGHTS, Kind
from perdure._store.sql import queries
from perdure.errors import InvalidSetting

query = queries(__name__)

MARKS: dict[Kind, tuple[str, ...]] = {
    Kind.CALLBACKS: ("perdure:callbacks",),
    Kind.READER: ("perdure:reader",),
    Kind.OPERATOR: ("perdure:reader", "perdure:operator"),
    Kind.CONSOLE: ("perdure:reader", "perdure:operator"),
}
"""How the comments of tables, views and functions begin that an application made for a kind of roles."""

ALONE = "lock table perdure.permission in share row exclusive mode"
"""A grant starts from all that the role was granted before, so its transaction begins with this."""

_LITERAL = "select quote_literal(x) from unnest($1::text[]) x"
_FUNCTIONS = (
    "select proname as name, oid::regprocedure::text as function from pg_proc "
    "where pronamespace = 'perdure'::regnamespace order by proname, oid"
)


@dataclass(frozen=True, slots=True)
class Grant:
    """One kind of rights of one role.

    Attributes:
        lifecycles: these alone; none = every one.
        tenants: these alone; none = every one.
    """

    role: str
    kind: Kind
    lifecycles: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()

    @property
    def scoped(self) -> bool:
        """Whether it is limited."""
        return bool(self.lifecycles or self.tenants)


async def statements(connection: Connection, grant: Grant) -> list[str]:
    """The statements that give the role these rights beside those of other kinds that it has, and take back those
    that it was granted before and that none of its kinds gives any more.

    Raises:
        InvalidSetting: there is no such role, or this kind of role, or this role, can't be limited.
    """
    role = await connection.fetchrow(query("roles"), [grant.role])
    if role is None:
        raise InvalidSetting(f"there is no role {grant.role!r} in this PostgreSQL: create role ... login, first")
    if grant.scoped and not RIGHTS[grant.kind].scoped:
        raise InvalidSetting(f"a role of kind {grant.kind} can't be limited to lifecycles or tenants: leave them out")
    if grant.scoped and role["unlimited"] and grant.kind is not Kind.CALLBACKS:
        raise InvalidSetting(
            f"no limit holds for {grant.role!r}: it owns the schema perdure, is a superuser or has BYPASSRLS. "
            "Create another role for this purpose"
        )
    before, others = await _granted(connection, grant)
    objects = await _Objects.read(connection, grant.role)
    given, after = objects.rights([grant]), set(objects.rights([grant, *others]))
    taken = [] if role["owner"] else [each for each in objects.rights(before) if each not in after]
    name = role["name"]
    found = [f"grant usage on schema {each} to {name}" for each in ("perdure", *objects.schemas(grant))]
    found += await _permissions(connection, grant, role["oid"])
    found += [f"revoke {may} on {what} from {name}" for what, may in _joined(taken)]
    found += [f"grant {may} on {what} to {name}" for what, may in _joined(given)]
    for table in objects.tables:
        found += await _policies(connection, role, table, [grant, *others])
    return list(dict.fromkeys(found))


async def _granted(connection: Connection, grant: Grant) -> tuple[list[Grant], list[Grant]]:
    """What the role may have from earlier grants, and what of it counts beside the new grant."""
    before, others = [], []
    for each in await connection.fetch(query("permissions_of_role"), grant.role):
        one = Grant(grant.role, Kind(each["kind"]), tuple(each["lifecycles"]), tuple(each["tenants"]))
        before.append(one)
        if each["counts"] and one.kind is not grant.kind:
            others.append(one)
    return before, others


async def _permissions(connection: Connection, grant: Grant, oid: str) -> list[str]:
    """What `perdure.permit` and later grants go by. Rows of a dropped role with this name go, and those of this role
    from before it was renamed.
    """
    role, kind = await _literals(connection, (grant.role, grant.kind))
    found = [
        f"delete from perdure.permission where role = {role} and kind = {kind}",
        f"delete from perdure.permission where (role = {role}) <> (role_oid = {oid})",
    ]
    if grant.kind is Kind.CALLBACKS and not grant.lifecycles:
        return found
    lifecycles = await _literals(connection, grant.lifecycles) or ["null"]
    tenants = await _literals(connection, grant.tenants) or ["null"]
    rows = ", ".join(f"({role}, {oid}, {kind}, {one}, {two})" for one in lifecycles for two in tenants)
    return [*found, f"insert into perdure.permission (role, role_oid, kind, lifecycle, tenant) values {rows}"]


_Right = tuple[str, str]
"""An object and a privilege."""


@dataclass(frozen=True, slots=True)
class _Objects:
    """What a role can have rights on: functions and tables of the schema, and what applications marked."""

    functions: list[asyncpg.Record]
    tables: list[asyncpg.Record]
    marked: list[asyncpg.Record]

    @classmethod
    async def read(cls, connection: Connection, role: str) -> _Objects:
        """Read them."""
        marks = sorted({mark for marks in MARKS.values() for mark in marks})
        return cls(
            await connection.fetch(_FUNCTIONS),
            await connection.fetch(query("tables"), role),
            await connection.fetch(query("marked"), marks, role),
        )

    def rights(self, grants: Sequence[Grant]) -> list[_Right]:
        """What these grants give."""
        return list(dict.fromkeys(right for grant in grants for right in self._rights(grant)))

    def schemas(self, grant: Grant) -> list[str]:
        """The schemas of what is marked for this grant. No grant takes them back: alone they disclose nothing."""
        return [each["schema"] for each in self._marked(grant)]

    def _rights(self, grant: Grant) -> Iterator[_Right]:
        wanted = _wanted(grant, [each["name"] for each in self.functions])
        yield from ((f"function {each['function']}", "execute") for each in self.functions if each["name"] in wanted)
        for table in self.tables:
            for may in _may(grant, table):
                audited = may == "insert" and table["name"] == "transition"
                yield f"perdure.{table['name']}", f"insert ({table['columns']})" if audited else may
        if RIGHTS[grant.kind].sequences:
            yield "all sequences in schema perdure", "usage"
        yield from ((each["what"], each["may"]) for each in self._marked(grant))

    def _marked(self, grant: Grant) -> list[asyncpg.Record]:
        if grant.scoped and grant.kind is not Kind.CALLBACKS:  # no policy limits what is an application's own
            return []
        return [each for each in self.marked if each["mark"] in MARKS.get(grant.kind, ())]


def _wanted(grant: Grant, known: Sequence[str]) -> list[str]:
    if grant.kind is Kind.CALLBACKS and not grant.lifecycles:
        return []
    names = RIGHTS[grant.kind].names(known)
    limited = {f"{each}_any": f"{each}_scoped" for each in DISPATCHED} if grant.scoped else {}
    return [limited.get(each, each) for each in names]


def _may(grant: Grant, table: asyncpg.Record) -> tuple[str, ...]:
    if not grant.scoped or table["of_entity"]:
        return RIGHTS[grant.kind].tables.get(table["name"], RIGHTS[grant.kind].usual)
    compared = table["name"] == "database" and grant.kind in (Kind.OPERATOR, Kind.CONSOLE)
    return ("select",) if compared else ()  # compared before an act; it has nothing of an entity


def _joined(rights: Sequence[_Right]) -> Iterator[_Right]:
    for what, each in groupby(rights, key=itemgetter(0)):
        yield what, ", ".join(may for _, may in each)


async def _policies(
    connection: Connection, role: asyncpg.Record, table: asyncpg.Record, grants: Sequence[Grant]
) -> list[str]:
    """The policy by which the role sees what any of its kinds lets it see.

    Where row level security begins, each other role with a right sees what it saw before. Later none gets a policy
    from another role's grant: it may be a limited role that has lost its own.
    """
    giving = [each for each in grants if _may(each, table)]
    limited = [each for each in giving if each.scoped]
    if not table["of_entity"] or not (table["secured"] or limited):
        return []
    on = f"perdure.{table['name']}"
    found = []
    if not table["secured"]:
        found.append(f"alter table {on} enable row level security")
        for other in await connection.fetch(query("roles"), table["grantees"]):
            found += _policy(on, other, "true", "all")
    found += [f"drop policy if exists {each} on {on}" for each in table["policies"]]
    if len(limited) < len(giving):
        found += _policy(on, role, "true", "all")
    elif limited:
        limits = [await _limit(connection, each, table) for each in limited]
        found += _policy(on, role, " or ".join(limits), "select")
    return found


def _policy(on: str, role: asyncpg.Record, limit: str, verb: str) -> list[str]:
    check = f" with check ({limit})" if verb == "all" else ""
    return [
        f"drop policy if exists {role['policy']} on {on}",
        f"create policy {role['policy']} on {on} for {verb} to {role['name']} using ({limit}){check}",
    ]


async def _limit(connection: Connection, grant: Grant, table: asyncpg.Record) -> str:
    parts = []
    if grant.lifecycles:
        parts.append(f"lifecycle in ({', '.join(await _literals(connection, grant.lifecycles))})")
    if grant.tenants:
        tenants = ", ".join(await _literals(connection, grant.tenants))
        same = f"e.lifecycle = {table['name']}.lifecycle and e.id = {table['name']}.id and e.tenant in ({tenants})"
        recorded = [f"exists (select from perdure.{each} e where {same})" for each in ("entity", "finished", "ident")]
        parts.append(f"tenant in ({tenants})" if table["of_tenant"] else f"({' or '.join(recorded)})")
    return " and ".join(parts)


async def _literals(connection: Connection, texts: Sequence[str]) -> list[str]:
    return [row[0] for row in await connection.fetch(_LITERAL, list(texts))]
