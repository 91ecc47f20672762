"""`perdure job-type test`: one real call of a page, by the code that workers call it with; nothing on record."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from time import monotonic
from typing import Annotated, Any, assert_never

import typer
from pydantic import ValidationError

from activities.http.exchange import HttpRequest
from activities.secrets import NoSecret
from activities.web_jobs import catalogue
from activities.web_jobs.calling import call_type
from activities.web_jobs.contracts import Answer, Call, Then
from activities.web_jobs.durations import written
from activities.web_jobs.job_type import JobType, Unusable
from activities.web_jobs.readiness import callback_token, why_not
from activities.web_jobs.request import call_of
from activities.web_jobs.resources import Web, lifespan
from activities.web_jobs.settings import web_settings
from perdure import Attempt, InDoubt, NotDone, Refused
from perdure.cli.printing import complain, one_line, print_line, refuse
from perdure.contracts import Key
from perdure.contracts.attempt import boot_clock
from perdure.contracts.effects import first_problem
from perdure.settings import settings
from workers.web_jobs.job_types.database import types
from workers.web_jobs.job_types.group import commands

_SHOWN = 2000
"""Characters of a body that are printed."""


@commands.command("test", epilog="Example: perdure job-type test send-invoice --param row=42")
def try_type(
    name: Annotated[str, typer.Argument(help="the job type", show_default=False)],
    param: Annotated[list[str] | None, typer.Option(help="NAME=VALUE, may be given often")] = None,
    payload: Annotated[str | None, typer.Option(help="JSON; the body of the request")] = None,
) -> None:
    """Call the page of a job type once: a real call, with a key that begins with test/. The page does its work.

    Says what was sent (of headers their names), what came back, and what that would mean for a job. A disabled type can
    be tested. Exit status 1 if it could not be called, or the job would not be done.
    """
    key = Key(f"test/{name}/{secrets.token_hex(8)}")
    try:
        call = Call(job=str(key), type=name, params=_params(param or []), payload=_json(payload))
    except ValidationError as error:
        refuse(first_problem(error), 2)
    if not asyncio.run(_test(call, key)):
        raise typer.Exit(1)


async def _test(call: Call, key: Key) -> bool:
    async with types(reads=True) as connection:
        type_ = await catalogue.find(connection, call.type)
    if type_ is None:
        refuse(f"there is no job type {call.type!r}", 1)
    if isinstance(type_, Unusable):
        refuse(type_, 1)
    if why := why_not(type_.model_copy(update={"disabled": None})):
        refuse(why, 1)
    if type_.disabled:
        complain(f"{type_.name} is disabled ({type_.disabled}): its jobs are not called")
    try:
        request = call_of(type_, call, key, _callback(type_, key))
    except (Refused, NoSecret) as error:
        refuse(f"it can't be called: {error}", 1)
    _print_sent(request, key)
    async with lifespan(settings()) as web, _without_children(web, call.job):
        now = datetime.now(UTC)
        attempt = Attempt(key, 1, now, boot_clock() + type_.timeout.total_seconds(), resources=web)
        return await _called(type_, call, request, attempt)


async def _called(type_: JobType, call: Call, request: HttpRequest, attempt: Attempt) -> bool:
    begun = monotonic()
    try:
        answer = await call_type(type_, call, request, attempt)
    except NotDone as no:
        said = f"not done: {no.why}\nit would be called again" + (
            f", {type_.tries} times at most" if type_.tries else ""
        )
    except Refused as no:
        said = f"refused: {no.why}\nthe job would fail"
    except InDoubt as doubt:
        said = f"in doubt: {doubt.why}\n{_policy(type_)}"
    else:
        said = f"answered {answer.status}{_body(answer)}\n{_meaning(type_, answer)}"
        print_line(f"after {monotonic() - begun:.2f} s: {said}")
        return True
    print_line(f"after {monotonic() - begun:.2f} s: {said}")
    return False


def _print_sent(request: HttpRequest, key: Key) -> None:
    print_line(f"{request.method} {request.url}")
    print_line(f"key: {key}")
    print_line(f"headers: {', '.join(sorted(request.headers, key=str.lower))}")
    print_line(f"body: {'none' if request.body is None else f'{len(request.body):,} bytes'}")


def _meaning(type_: JobType, answer: Answer) -> str:
    match answer.then:
        case Then.NOTHING:
            return "the job would be complete"
        case Then.FOLLOW:
            where = one_line(answer.location)
            return f"the job would ask at {where} until it is done, for {written(type_.within)} at most"
        case Then.CALLBACK:
            return f"the job would wait for its callback, for {written(type_.within)}; that of this test is unknown"
        case Then.CHILDREN:
            may = ", ".join(type_.children) or "none"
            return (
                f"the job would lead {answer.children} children, of the types that it may list: {may}; "
                "and more where further pages list them"
            )
        case Then.UNUSABLE:
            return f"the job would fail: {one_line(answer.body)}"
        case _:
            assert_never(answer.then)


def _policy(type_: JobType) -> str:
    match type_.doubt:
        case "dedupe":
            return (
                f"it would be called again with the same key, until {written(type_.remembers or type_.within)} are over"
            )
        case "lookup":
            return "its status URL would be asked"
        case "repeat":
            return "it would be called again"
        case "escalate":
            return "the job would wait until a person says what became of it"


def _body(answer: Answer) -> str:
    if answer.body is None:
        return ""
    text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body, ensure_ascii=False)
    return f": {one_line(text[:_SHOWN])}" + ("..." if len(text) > _SHOWN else "")


def _callback(type_: JobType, key: Key) -> dict[str, str]:
    """What a page is told in earnest; nobody waits for the call, and no token is on record."""
    if not type_.callback:
        return {}
    return {"Perdure-Callback": f"{web_settings().callback_url}/{callback_token(key)}"}


@asynccontextmanager
async def _without_children(web: Web, job: str) -> AsyncIterator[None]:
    """Take away again what the answer has listed: none of it is ever started."""
    try:
        yield
    finally:
        async with web.pool.acquire() as connection, connection.transaction():
            await connection.execute("delete from web_job.job where parent = $1 and state = 'listed'", job)
            await connection.execute("delete from web_job.refused_child where master = $1", job)
            await connection.execute("delete from web_job.family where master = $1", job)


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
