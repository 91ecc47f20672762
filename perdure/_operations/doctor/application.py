"""The App: its columns, its expected rows and its recorded states fit the database, and its own checks find nothing."""

from __future__ import annotations

from contextlib import nullcontext

from perdure._operations.doctor.check import Check, Needs, Site, problem_of
from perdure._reconcile.expected import Expected
from perdure._store.postgres import Database
from perdure._worker.columns import check_columns
from perdure._worker.record import check_record
from perdure.contracts.problems import Problem
from perdure.errors import PerdureError


async def _look_at_database(site: Site) -> list[Problem]:
    assert site.app is not None
    found = []
    url = site.config.column_database_url
    writing = Database(url, most=1) if url else None
    try:
        columns = await writing.open() if writing else None
        async with site.database.acquire(timeout=10) as connection:
            for name, lifecycle in site.app.lifecycles.items():
                try:
                    await check_record(connection, name, lifecycle)
                    if lifecycle.expects is not None:
                        await Expected(name, lifecycle.expects).check(connection)
                    async with columns.acquire(timeout=10) if columns else nullcontext(connection) as writer:
                        await check_columns(connection, writer, {name: lifecycle.mirror})
                except PerdureError as error:
                    found.append(problem_of(error))
    finally:
        if writing is not None:
            await writing.close()
    return found


async def _ask_application(site: Site) -> list[Problem]:
    assert site.app is not None
    return [each for check in site.app.checks for each in check()]


APPLICATION = Check("application and database", (Needs.APP, Needs.DATABASE, Needs.SCHEMA), _look_at_database)
OWN_CHECKS = Check("checks of the application", (Needs.APP,), _ask_application)
