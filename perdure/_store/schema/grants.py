"""The statements that give a role its rights, by what was granted to it before and what is granted now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg

from perdure._store.schema import Connection
from perdure._store.schema.kinds import DISPATCHED, RIGHTS, Kind
from perdure._store.sql import queries, shared
from perdure.errors import InvalidSetting

query = queries(__name__)

MARKS: dict[Kind, tuple[str, ...]] = {
    Kind.CALLBACKS: ("perdure:callbacks",),
    Kind.READER: ("perdure:reader",),
    Kind.OPERATOR: ("perdure:reader", "perdure:operator"),
    Kind.CONSOLE: ("perdure:reader", "perdure:operator"),
}
"""How the comments of tables, views and functions begin that an application made for a kind of roles."""

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
    """The statements that give the role these rights beside those of other kinds that it has.

    Raises:
        InvalidSetting: there is no such role, or this kind of role can't be limited.
    """
    role = await connection.fetchrow(query("roles"), [grant.role])
    if role is None:
        raise InvalidSetting(f"there is no role {grant.role!r} in this PostgreSQL: create role ... login, first")
    if grant.scoped and not RIGHTS[grant.kind].scoped:
        raise InvalidSetting(f"a role of kind {grant.kind} can't be limited to lifecycles or tenants: leave them out")
    name = role["name"]
    found = [f"grant usage on schema perdure to {name}"]
    found += await _permissions(connection, grant, role["oid"])
    found += await _functions(connection, grant, name)
    found += await _tables(connection, grant, role)
    if RIGHTS[grant.kind].sequences:
        found.append(f"grant usage on all sequences in schema perdure to {name}")
    if grant.kind is Kind.CALLBACKS or not grant.scoped:  # no policy limits what is an application's own
        marked = await connection.fetch(query("marked"), list(MARKS.get(grant.kind, ())))
        found += [f"grant usage on schema {each['schema']} to {name}" for each in marked]
        found += [f"grant {each['may']} to {name}" for each in marked]
    return list(dict.fromkeys(found))


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


async def _functions(connection: Connection, grant: Grant, name: str) -> list[str]:
    """A right without limits is taken back where no kind of the role's gives it any more."""
    known = await connection.fetch(_FUNCTIONS)
    names = [each["name"] for each in known]
    wanted, unlimited = set(_wanted(grant, names)), set()
    for each in await connection.fetch(shared("permissions_of_role"), grant.role, str(grant.kind)):
        other = Grant(grant.role, Kind(each["kind"]), *_one(each["lifecycle"]), *_one(each["tenant"]))
        unlimited |= set(_wanted(other, names))
    taken = {f"{each}_any" for each in DISPATCHED if f"{each}_scoped" in wanted} - unlimited
    return [
        *(f"revoke execute on function {each['function']} from {name}" for each in known if each["name"] in taken),
        *(f"grant execute on function {each['function']} to {name}" for each in known if each["name"] in wanted),
    ]


def _wanted(grant: Grant, known: Sequence[str]) -> list[str]:
    if grant.kind is Kind.CALLBACKS and not grant.lifecycles:
        return []
    names = RIGHTS[grant.kind].names(known)
    limited = {f"{each}_any": f"{each}_scoped" for each in DISPATCHED} if grant.scoped else {}
    return [limited.get(each, each) for each in names]


async def _tables(connection: Connection, grant: Grant, role: asyncpg.Record) -> list[str]:
    """Rights on tables; where a role is limited, policies: PostgreSQL then needs one for each role that has a right."""
    rights, name = RIGHTS[grant.kind], role["name"]
    found = []
    for table in await connection.fetch(query("tables"), grant.role):
        may = rights.tables.get(table["name"], rights.usual)
        on = f"perdure.{table['name']}"
        if grant.scoped and table["name"] == "database" and grant.kind in (Kind.OPERATOR, Kind.CONSOLE):
            found.append(f"grant select on {on} to {name}")  # compared before an act; it has nothing of an entity
            continue
        if not may or (grant.scoped and not (table["of_lifecycle"] and table["of_entity"])):
            continue
        if "insert" in may and table["name"] == "transition":
            others = ", ".join(each for each in may if each != "insert")
            found += [f"grant {others} on {on} to {name}", f"grant insert ({table['columns']}) on {on} to {name}"]
        else:
            found.append(f"grant {', '.join(may)} on {on} to {name}")
        if table["secured"] or grant.scoped:
            found += await _policies(connection, grant, role, table)
    return found


async def _policies(connection: Connection, grant: Grant, role: asyncpg.Record, table: asyncpg.Record) -> list[str]:
    """Where row level security begins, each other role with a right sees what it saw before. Later none gets a policy
    from another role's grant: it may be a limited role that has lost its own.
    """
    on = f"perdure.{table['name']}"
    found = []
    if not table["secured"]:
        found.append(f"alter table {on} enable row level security")
        for other in await connection.fetch(query("roles"), table["grantees"]):
            found += _policy(on, other, "true", "all")
    found += [f"drop policy if exists {each} on {on}" for each in table["policies"]]
    limit = await _limit(connection, grant, table)
    return [*found, *_policy(on, role, limit, "select" if grant.scoped else "all")]


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
    return " and ".join(parts) or "true"


async def _literals(connection: Connection, texts: Sequence[str]) -> list[str]:
    return [row[0] for row in await connection.fetch(_LITERAL, list(texts))]


def _one(text: str | None) -> tuple[tuple[str, ...]]:
    return ((text,) if text else (),)
