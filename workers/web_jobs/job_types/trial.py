"""`perdure job-type test`: one real call of a page with the code of the workers, without a record."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from activities.web_jobs import catalogue
from activities.web_jobs.job_type import JobType, Unusable
from activities.web_jobs.trial import NoCall, Trial
from perdure.cli.printing import complain, one_line, print_line, refuse
from perdure.contracts.effects import first_problem
from perdure.settings import settings
from workers.web_jobs.job_types.database import types
from workers.web_jobs.job_types.group import commands


@commands.command("test", epilog="Example: perdure job-type test send-invoice --param row=42")
def try_type(
    name: Annotated[str, typer.Argument(help="the job type", show_default=False)],
    param: Annotated[list[str] | None, typer.Option(help="NAME=VALUE, may be given often")] = None,
    payload: Annotated[str | None, typer.Option(help="JSON; the body of the request")] = None,
) -> None:
    """Call the page of a job type once: a real call, with a key that begins with test/. The page does its work.

    Prints the request (of headers their names), the answer, and what that would mean for a job. A disabled type can
    be tested. Exit status 1 if it could not be called, or the job would not be done.
    """
    params, body = _params(param or []), _json(payload)
    try:
        trial = Trial.of(asyncio.run(_found(name)), params, body)
    except ValidationError as error:
        refuse(first_problem(error), 2)
    except NoCall as error:
        refuse(error, 1)
    if trial.type.disabled:
        complain(f"{trial.type.name} is disabled ({trial.type.disabled}): its jobs are not called")
    _print_sent(trial)
    outcome = asyncio.run(trial.run(settings()))
    body = "" if outcome.body is None else f": {outcome.body}"
    print_line(f"after {outcome.seconds:.2f} s: {one_line(outcome.came + body)}")
    print_line(one_line(outcome.meaning))
    if not outcome.done:
        raise typer.Exit(1)


async def _found(name: str) -> JobType:
    async with types(reads=True) as connection:
        type_ = await catalogue.find(connection, name)
    if type_ is None:
        refuse(f"there is no job type {name!r}", 1)
    if isinstance(type_, Unusable):
        refuse(type_, 1)
    return type_


def _print_sent(trial: Trial) -> None:
    request = trial.request
    print_line(f"{request.method} {request.url}")
    print_line(f"key: {trial.key}")
    print_line(f"headers: {', '.join(sorted(request.headers, key=str.lower))}")
    print_line(f"body: {'none' if request.body is None else f'{len(request.body):,} bytes'}")


def _params(given: list[str]) -> dict[str, Any]:
    params = {}
    for each in given:
        name, sign, value = each.partition("=")
        if not sign or not name:
            refuse(f"--param: {one_line(each)!r} is not NAME=VALUE", 2)
        params[name] = value
    return params


def _json(given: str | None) -> Any:
    try:
        return None if given is None else json.loads(given)
    except ValueError as error:
        refuse(f"--payload is no JSON: {error}", 2)
