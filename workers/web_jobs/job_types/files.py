"""`perdure job-type apply | export`: job types in a YAML file, for a repository."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Annotated

import typer

from activities.web_jobs import catalogue
from activities.web_jobs.catalogue import Change
from activities.web_jobs.job_type import Unusable
from perdure.cli.printing import complain, print_line, refuse
from workers.web_jobs.job_types.change import say_changed
from workers.web_jobs.job_types.database import release, types
from workers.web_jobs.job_types.file import Entry, InvalidFile, read, write
from workers.web_jobs.job_types.group import commands


@commands.command(epilog="Example: perdure job-type apply job-types.yaml --dry-run")
def apply(
    file: Annotated[typer.FileText, typer.Argument(help="a list of job types; - = standard input", encoding="utf-8")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say what would be done, and do nothing")] = False,
) -> None:
    """Add and change job types to match a file: all of them, or none. Other types are not changed.

    A type without the field `disabled` stays disabled or enabled. Exit status 2 if the file can't be used.
    """
    try:
        entries = read(file.read(), file.name)
    except UnicodeDecodeError:
        refuse(f"{file.name} is no UTF-8", 2)
    except InvalidFile as error:
        for line in error.lines:
            complain(line)
        raise typer.Exit(2) from None
    asyncio.run(_apply(entries, dry_run))


@commands.command(epilog="Example: perdure job-type export > job-types.yaml")
def export() -> None:
    """Print the job types as the YAML that `apply` reads. It contains headers in plain text.

    Exit status 1 if one can't be used: it is left out.
    """
    found = asyncio.run(_every())
    typer.echo(write(each for each in found if not isinstance(each, Unusable)), nl=False)
    unusable = [each for each in found if isinstance(each, Unusable)]
    for each in unusable:
        complain(each)
    if unusable:
        raise typer.Exit(1)


async def _apply(entries: list[Entry], dry_run: bool) -> None:
    changes: dict[str, Change] = {}
    async with types() as connection:
        # In a fixed order, so that two sessions that apply at once cannot deadlock.
        for entry in sorted(entries, key=lambda each: each.type.name):
            changes[entry.type.name] = await catalogue.put(
                connection, entry.type, keep_disabled=not entry.says_disabled, dry_run=dry_run
            )
    for entry in entries:
        say_changed(entry.type, changes[entry.type.name])
    counts = Counter(changes.values())
    released = (
        0 if dry_run else await release([name for name, change in changes.items() if change is not Change.UNCHANGED])
    )
    done = ", ".join(f"{counts[each]} {each}" for each in Change)
    print_line(f"would be: {done}" if dry_run else f"{done}; {released} held jobs are released")


async def _every() -> list[catalogue.Found]:
    async with types(reads=True) as connection:
        return await catalogue.every_type(connection)
