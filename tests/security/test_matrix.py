"""What each kind of role may do, read from a real database after `perdure grant`, is what the reference shows."""

from __future__ import annotations

from infra.site import rights
from perdure._store.schema.kinds import Kind
from tests.security.conftest import Roles, perdure
from tests.world import World

APP = "tests.apps.bodies:app"

TABLES = """
    select c.relname as name, string_agg(v.letter, '' order by v.n) as may
    from pg_class c,
        (values (1, 'r', 'select'), (2, 'a', 'insert'), (3, 'w', 'update'), (4, 'd', 'delete')) v (n, letter, verb)
    where c.relnamespace = 'perdure'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
        and case when v.verb = 'delete' then has_table_privilege($1, c.oid, v.verb)
            else has_any_column_privilege($1, c.oid, v.verb) end
    group by 1"""
FUNCTIONS = """
    select distinct p.proname as name, 'X' as may from pg_proc p
    where p.pronamespace = 'perdure'::regnamespace and has_function_privilege($1, p.oid, 'execute')"""
OBJECTS = """
    select 'table ' || c.relname from pg_class c
    where c.relnamespace = 'perdure'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
        and c.relname !~ '^(finished|transition)_'
    union select 'function ' || p.proname from pg_proc p where p.pronamespace = 'perdure'::regnamespace order by 1"""


async def granted(world: World, roles: Roles) -> dict[str, dict[Kind, str]]:
    """The rights that a real database gives each kind of role, by the table or function."""
    found: dict[str, dict[Kind, str]] = {row[0]: {} for row in await world.db.fetch(OBJECTS)}
    for kind in Kind:
        name = await roles.make(f"a_{kind}")
        more = ("--app", APP) if kind is Kind.COLUMN else ()
        await perdure(world, "grant", name, "--as", kind, *more)
        for what, query in (("table", TABLES), ("function", FUNCTIONS)):
            for row in await world.db.fetch(query, name):
                if f"{what} {row['name']}" in found:
                    found[f"{what} {row['name']}"][kind] = row["may"]
    return found


async def test_the_reference_shows_the_rights_that_a_real_database_has_after_the_grants(
    world: World, roles: Roles
) -> None:
    assert rights.matrix(rights.rights()) == rights.matrix(await granted(world, roles))


async def test_no_kind_of_role_owns_creates_or_grants_anything(world: World, roles: Roles) -> None:
    for kind in Kind:
        name = await roles.make(f"a_{kind}")
        more = ("--app", APP) if kind is Kind.COLUMN else ()
        await perdure(world, "grant", name, "--as", kind, *more)
        owned = "select count(*) from pg_shdepend where refobjid = $1::regrole and deptype = 'o'"
        assert await world.db.fetchval(owned, name) == 0, kind
        assert not await world.db.fetchval("select has_schema_privilege($1, 'perdure', 'create')", name), kind
        again = (
            "select count(*) from pg_class c, aclexplode(c.relacl) a where a.grantee = $1::regrole and a.is_grantable"
        )
        assert await world.db.fetchval(again, name) == 0, kind
