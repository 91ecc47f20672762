"""What each kind of role may do, read from a real database after `perdure grant`, is what docs/security.md says."""

from __future__ import annotations

from pathlib import Path

from perdure._store.schema.kinds import Kind
from tests.security.conftest import Roles, perdure
from tests.world import World

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
APP = "tests.apps.bodies:app"
BEGIN, END = "<!-- matrix -->\n", "<!-- end of matrix -->\n"

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


async def matrix(world: World, roles: Roles) -> str:
    """The table: an object a row, a kind of role a column; objects with the same rights share a row."""
    rights: dict[str, dict[Kind, str]] = {row[0]: {} for row in await world.db.fetch(OBJECTS)}
    for kind in Kind:
        name = await roles.make(f"a_{kind}")
        more = ("--app", APP) if kind is Kind.COLUMN else ()
        await perdure(world, "grant", name, "--as", kind, *more)
        for what, query in (("table", TABLES), ("function", FUNCTIONS)):
            for row in await world.db.fetch(query, name):
                if f"{what} {row['name']}" in rights:
                    rights[f"{what} {row['name']}"][kind] = row["may"]
    rows: dict[tuple[str, ...], list[str]] = {}
    for thing, may in rights.items():
        what, _, name = thing.partition(" ")
        rows.setdefault((what, *(may.get(kind, "") for kind in Kind)), []).append(f"`{name}`")
    lines = [f"| | {' | '.join(Kind)} |", f"|---|{'---|' * len(Kind)}"]
    for key, names in sorted(rows.items(), key=lambda row: (row[0][0] != "table", row[1])):
        what, *cells = key
        plural = what if len(names) == 1 else f"{what}s"
        lines.append(f"| {plural} {', '.join(names)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


async def test_the_page_shows_the_rights_that_a_real_database_has_after_the_grants(world: World, roles: Roles) -> None:
    page = PAGE.read_text()
    shown = page.partition(BEGIN)[2].partition(END)[0].strip() + "\n"
    assert shown == await matrix(world, roles)


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
