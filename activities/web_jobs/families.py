"""Routes jobs by their types, and leads families of jobs: each in one transaction of `tables.sql`."""

from __future__ import annotations

import json

from activities.web_jobs.contracts import ADVANCE, AGAIN, PASS_ON, ROUTE, Ask, Family, Left, Pass, Route, Step
from activities.web_jobs.job_type import Unusable, read_type
from activities.web_jobs.readiness import why_not
from activities.web_jobs.resources import web_of
from perdure import Attempt


@ROUTE.performs
async def route_job(ask: Ask, attempt: Attempt) -> Route:
    """The way to perform a job, by the present data of its type."""
    async with web_of(attempt).pool.acquire() as connection:
        listed = await connection.fetchval("select exists (select from web_job.family where master = $1)", ask.job)
        try:
            type_ = await read_type(connection, ask.type)
        except Unusable as error:
            return Route(held=error.why)
    if type_ is None:
        return Route(held=f"there is no job type {ask.type!r}: add it by `perdure job-type add`")
    if why := why_not(type_):
        return Route(held=why)
    return type_.route.model_copy(update={"listed": listed})


@ADVANCE.performs
async def advance_family(step: Step, attempt: Attempt) -> Family:
    """Count a family, and start as many of its children as its window allows."""
    family = await web_of(attempt).pool.fetchval("select web_job.advance($1)", step.master)
    return Family() if family is None else Family.model_validate(json.loads(family))


@AGAIN.performs
async def run_failed_again(step: Step, attempt: Attempt) -> Left:
    """Give a page of the failed children back to those that wait."""
    return Left(left=await web_of(attempt).pool.fetchval("select web_job.run_again($1)", step.master))


@PASS_ON.performs
async def cancel_children(part: Pass, attempt: Attempt) -> Left:
    """Hand a cancel on to a page of the children."""
    cancel = "select web_job.cancel_children($1, $2, $3)"
    return Left(left=await web_of(attempt).pool.fetchval(cancel, part.master, part.by, part.note))
