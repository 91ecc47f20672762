"""PgBouncer: whether workers have sessions of PostgreSQL's for themselves."""

from __future__ import annotations

from perdure._operations.doctor.check import Check, Needs, Site
from perdure._store.connecting import keeps_sessions
from perdure.contracts.problems import Problem


async def _look(site: Site) -> list[Problem]:
    if await keeps_sessions(site.database):
        return []
    what = "PERDURE_DATABASE_URL leads to a pooler in transaction mode: each statement costs three more round trips"
    return [Problem(what, "set PERDURE_DATABASE_URL of the workers to PostgreSQL itself", serious=False)]


POOLER = Check("PgBouncer", (Needs.DATABASE,), _look)
