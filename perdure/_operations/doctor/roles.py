"""Database roles: the one in PERDURE_DATABASE_URL may do what a worker does, and not more."""

from __future__ import annotations

from perdure._operations.doctor.check import Check, Needs, Site
from perdure._store.schema.kinds import Kind
from perdure._store.schema.rights import check_role
from perdure.contracts.problems import Problem

_SUPERUSER = "select quote_ident(rolname) from pg_catalog.pg_roles where rolname = current_user and rolsuper"


async def _look(site: Site) -> list[Problem]:
    async with site.database.acquire(timeout=10) as connection:
        await check_role(connection, Kind.WORKER)
        superuser = await connection.fetchval(_SUPERUSER)
    if superuser is None:
        return []
    what = f"the role {superuser} is a superuser: whoever takes over a worker has the whole server"
    return [
        Problem(what, "psql -c 'create role shop_worker login' && perdure grant shop_worker --as worker", serious=False)
    ]


ROLES = Check("roles", (Needs.DATABASE, Needs.SCHEMA), _look)
