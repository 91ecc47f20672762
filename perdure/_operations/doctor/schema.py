"""The schema `perdure`: there, and of this version."""

from __future__ import annotations

from perdure._operations.doctor.check import Check, Needs, Site
from perdure._store import schema
from perdure._store.schema.kinds import Kind
from perdure._store.schema.rights import permitted
from perdure.contracts.problems import Problem


async def _look(site: Site) -> list[Problem]:
    async with site.database.acquire(timeout=10) as connection, permitted(connection, Kind.WORKER):
        await schema.check(connection)
    return []


SCHEMA = Check("schema", (Needs.DATABASE,), _look)
