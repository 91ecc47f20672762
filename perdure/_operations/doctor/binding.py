"""Database and Temporal: they belong together, and the database is no copy."""

from __future__ import annotations

from perdure._operations.doctor.check import Check, Needs, Site
from perdure._services.ownership.exchange import Exchange
from perdure._services.ownership.ownership import is_stopped
from perdure._store.sql import shared
from perdure.contracts.problems import Problem


async def _look(site: Site) -> list[Problem]:
    row = await site.database.fetchrow(shared("database"))
    if row is None:
        return [
            Problem(
                "a dump is being restored over this database: it has no mark", "perdure database claim --as restored"
            )
        ]
    await Exchange(site.client, site.config).check_binding(row)
    if is_stopped(row["problem"]):
        return [Problem(f"nothing is sent from this database: {row['problem']}", "perdure database claim")]
    return []


BINDING = Check("binding of database and Temporal", (Needs.DATABASE, Needs.SCHEMA, Needs.TEMPORAL), _look)
