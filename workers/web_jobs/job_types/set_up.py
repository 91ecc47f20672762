"""`perdure job-type set-up`: the tables and functions of web jobs in the app's database, and an app's rights."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from activities.web_jobs import catalogue
from perdure.cli.database import transaction
from perdure.cli.printing import one_line, print_line, refuse
from workers.web_jobs.job_types.group import commands

_RIGHTS = (
    "grant usage on schema web_job to {}",
    "grant insert (id, type, params, payload), select on web_job.job to {}",
    "grant select on web_job.result to {}",
    "grant execute on function web_job.called_back(text, boolean, jsonb, text) to {}",
)


@commands.command("set-up", epilog="Example: perdure migrate && perdure job-type set-up --grant shop_app")
def set_up(
    grant: Annotated[
        str | None, typer.Option(metavar="ROLE", help="a role that may insert jobs, read results and call back")
    ] = None,
    print_only: Annotated[bool, typer.Option("--print", help="print the SQL, for your own migrations")] = False,
) -> None:
    """Create the tables and functions of web jobs, in the schema web_job. May be repeated.

    The schema perdure has to be there: `perdure migrate` makes it.
    """
    rights = [] if grant is None else [each.format(_quoted(grant)) for each in _RIGHTS]
    if print_only:
        typer.echo(catalogue.tables(), nl=False)
    else:
        asyncio.run(_set_up(grant, rights))
    for statement in rights:
        print_line(one_line(f"{statement};"))
    if not print_only:
        print_line("the tables of web jobs are there")


async def _set_up(role: str | None, rights: list[str]) -> None:
    async with transaction() as connection:
        known = "select exists (select from pg_roles where rolname = $1)"
        if role is not None and not await connection.fetchval(known, role):
            refuse(f"there is no role {role!r} in this PostgreSQL: create role ... login, first", 1)
        await catalogue.set_up(connection)
        for statement in rights:
            await connection.execute(statement)


def _quoted(role: str) -> str:
    return '"' + role.replace('"', '""') + '"'
