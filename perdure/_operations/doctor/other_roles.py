"""The URLs of the roles for columns and erasure: they lead to the database in PERDURE_DATABASE_URL."""

from __future__ import annotations

from perdure._operations.doctor.check import Check, Needs, Site, problem_of
from perdure._store.one_database import check_same_database
from perdure._store.postgres import Database
from perdure.contracts.problems import Problem
from perdure.errors import PerdureError


async def _look(site: Site) -> list[Problem]:
    urls = {
        "PERDURE_COLUMN_DATABASE_URL": site.config.column_database_url,
        "PERDURE_ERASURE_DATABASE_URL": site.config.erasure_database_url,
    }
    found = []
    for setting, url in urls.items():
        try:
            if url is not None:
                await _compare(site, setting, url)
        except PerdureError as error:
            found.append(problem_of(error))
    return found


async def _compare(site: Site, setting: str, url: str) -> None:
    other = Database(url, most=1)
    try:
        async with (await other.open()).acquire(timeout=10) as connection, site.database.acquire(timeout=10) as own:
            await check_same_database(own, connection, setting)
    finally:
        await other.close()


OTHER_ROLES = Check("database of other roles", (Needs.DATABASE,), _look)
