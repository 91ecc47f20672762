"""`perdure job-type add | disable | enable`: changes one job type, and lets held jobs continue."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from activities.web_jobs import catalogue, urls
from activities.web_jobs.catalogue import Change
from activities.web_jobs.job_type import JobType, problems
from perdure.cli.printing import one_line, print_line, refuse
from workers.web_jobs.job_types.advice import advise
from workers.web_jobs.job_types.database import release, types
from workers.web_jobs.job_types.group import commands

Name = Annotated[str, typer.Argument(help="the job type", show_default=False)]


@commands.command(
    epilog="Example: perdure job-type add send-invoice https://billing.internal/jobs/send-invoice "
    "--timeout 30s --doubt dedupe:24h"
)
def add(
    name: Name,
    url: Annotated[str, typer.Argument(help="where its page is: https://host/path?row={row}", show_default=False)],
    method: Annotated[str | None, typer.Option(help="POST (default), GET, PUT, PATCH or DELETE")] = None,
    header: Annotated[list[str] | None, typer.Option(help="NAME=VALUE, may be given often; no secrets")] = None,
    timeout: Annotated[str | None, typer.Option(help="the longest that one call may take; default: 30s")] = None,
    within: Annotated[
        str | None, typer.Option(help="the longest in all, once the page has answered that it is at work; default: 1d")
    ] = None,
    doubt: Annotated[
        str | None,
        typer.Option(
            help="when the outcome of a call is unknown: dedupe:24h = call again, it drops repeats for so long; "
            "lookup:URL = ask there; repeat = call again; escalate (default) = a person decides"
        ),
    ] = None,
    otherwise: Annotated[
        str | None, typer.Option(help="past that time, or when asking is no use: escalate (default) or repeat")
    ] = None,
    visibility_delay: Annotated[
        str | None,
        typer.Option(help="for lookup: how long it may work on after a call; default: 30s"),
    ] = None,
    not_done: Annotated[
        list[int] | None, typer.Option(help="a status from 500 on that means that it did nothing; may be given often")
    ] = None,
    tries: Annotated[int | None, typer.Option(help="calls that may end with nothing done; default: no limit")] = None,
    at_once: Annotated[int | None, typer.Option(help="calls that one worker makes at a time; default: 50")] = None,
    signed_with: Annotated[
        str | None, typer.Option(help="where the secret of the signature is: env:NAME or file:/path")
    ] = None,
    status_header: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE, for a status URL of another origin; may be given often")
    ] = None,
    status_signed_with: Annotated[
        str | None, typer.Option(help="where the secret is with which requests to such a status URL are signed")
    ] = None,
    callback: Annotated[bool, typer.Option("--callback", help="it may answer 202, and call back")] = False,
    child: Annotated[
        list[str] | None, typer.Option(help="a type whose jobs its page may list as children; may be given often")
    ] = None,
    max_depth: Annotated[
        int | None, typer.Option(help="levels of children below the job that an app inserts; default: 3")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="where there is one of that name: make it so")] = False,
) -> None:
    """Add a job type. Jobs that wait for it continue.

    With --replace, it replaces the type of that name, which stays disabled if it was. Exit status 1 if there is one of
    that name, 2 if an option cannot be used.
    """
    given = {
        "name": name,
        "url": url,
        "method": method and method.upper(),
        "headers": _headers("--header", header or []),
        "status_headers": _headers("--status-header", status_header or []),
        "status_signed_with": status_signed_with,
        "timeout": timeout,
        "within": within,
        "doubt": doubt,
        "otherwise": otherwise,
        "visibility_delay": visibility_delay,
        "not_done": not_done or None,
        "tries": tries,
        "at_once": at_once,
        "signed_with": signed_with,
        "callback": callback,
        "children": child or None,
        "max_depth": max_depth,
    }
    try:
        type_ = JobType.model_validate({key: value for key, value in given.items() if value is not None})
    except ValidationError as error:
        refuse(f"job-type {one_line(name)}: {'; '.join(problems(error))}", 2)
    asyncio.run(_add(type_, replace))


@commands.command(epilog="Example: perdure job-type disable send-invoice --why 'their server is being moved'")
def disable(
    name: Name,
    why: Annotated[str, typer.Option(help="why, for everybody who looks at a job that is held")],
) -> None:
    """Hold the jobs of a type: no page is called for them, and none is lost.

    What is under way is not cut off. Exit status 1 if there is no such type.
    """
    if not 1 <= len(why.strip()) <= 500:
        refuse("--why: say why, in 1 to 500 characters", 2)
    if not asyncio.run(_disable(name, one_line(why))):
        refuse(f"there is no job type {name!r}", 1)
    print_line(f"{name} is disabled: its jobs are held")


@commands.command(epilog="Example: perdure job-type enable send-invoice")
def enable(name: Name) -> None:
    """Let the held jobs of a type continue. May be repeated.

    Exit status 1 if there is no such type.
    """
    released = asyncio.run(_enable(name))
    if released is None:
        refuse(f"there is no job type {name!r}", 1)
    print_line(f"{name} is enabled: {released} held jobs are released")


def say_changed(type_: JobType, change: Change) -> None:
    """Print the change of a job type in one line."""
    named = ", ".join(urls.names(type_.url))
    print_line(f"{change} {type_.name}: {type_.method} {type_.url}" + (f"  params: {named}" if named else ""))
    advise(type_)


async def _add(type_: JobType, replace: bool) -> None:
    async with types() as connection:
        before = await catalogue.find(connection, type_.name)
        if before is not None and not replace:
            refuse(f"there is a job type {type_.name} already: --replace makes it so", 1)
        change = await catalogue.put(connection, type_, keep_disabled=True)
    say_changed(type_, change)
    if change is not Change.UNCHANGED and (released := await release([type_.name])):
        print_line(f"{released} held jobs are released")


async def _disable(name: str, why: str) -> bool:
    async with types() as connection:
        return await catalogue.disable(connection, name, why)


async def _enable(name: str) -> int | None:
    async with types() as connection:
        if not await catalogue.enable(connection, name):
            return None
    return await release([name])


def _headers(option: str, given: list[str]) -> dict[str, Any]:
    headers = {}
    for each in given:
        name, sign, value = each.partition("=")
        if not sign:
            refuse(f"{option}: {one_line(name)!r} is not NAME=VALUE", 2)
        headers[name.strip()] = value
    return headers
