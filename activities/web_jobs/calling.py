"""The call of a job's page: makes one request, and evaluates its end."""

from __future__ import annotations

from activities.http.exchange import HttpRequest
from activities.http.retry_after import pause_of
from activities.web_jobs import children
from activities.web_jobs.answer import answer_of
from activities.web_jobs.asking import ask, without_doubt
from activities.web_jobs.callbacks import callback_token, digest_of, is_expected
from activities.web_jobs.contracts import Answer, Call, Then
from activities.web_jobs.job_type import JobType
from activities.web_jobs.outcomes import OURS_PAUSE, ending
from activities.web_jobs.readiness import ready_type
from activities.web_jobs.request import call_of
from activities.web_jobs.resources import Web, web_of
from activities.web_jobs.settings import web_settings
from perdure import Attempt, NotDone, Refused


async def call(job: Call, attempt: Attempt) -> Answer:
    """Call the page of a job.

    Raises:
        NotDone: the page certainly did nothing, because it was not reached, or reports that.
        Refused: 4xx, or what it is to be called with can't be sent; and that answers for each attempt before this one.
        InDoubt: the request left, and the answer does not show the outcome.
    """
    with without_doubt("before the call"):  # nothing was sent after any error
        prepared = await _prepared(job, attempt)
    if isinstance(prepared, Answer):
        return prepared
    type_, request, doubted = prepared
    with web_of(attempt).turnstile.passed(f"the calls of {type_.name}", type_.at_once):
        return await call_type(type_, job, request, attempt, doubted=doubted)


async def call_type(
    type_: JobType, job: Call, request: HttpRequest, attempt: Attempt, *, doubted: bool = False, records: bool = True
) -> Answer:
    """Send the prepared request, and read the answer.

    Args:
        doubted: an attempt before this one may have been done.
        records: whether children that it lists become jobs.
    """
    reply = await ask(request, attempt)
    pause = pause_of(reply.headers.get("Retry-After"))
    end = ending(
        reply.status,
        first=attempt.number == 1,
        # Under `repeat` a refusal ends the job, and the doubt stays on record.
        doubted=doubted and type_.doubt != "repeat",
        pause=pause,
        not_done=type_.not_done,
    )
    if end is not None:
        raise end
    web = web_of(attempt) if records else None
    return await answer_of(
        reply, web=web, job=job.job, url=request.url, callback=type_.callback, lists=bool(type_.children)
    )


async def _prepared(job: Call, attempt: Attempt) -> tuple[JobType, HttpRequest, bool] | Answer:
    web = web_of(attempt)
    type_ = await ready_type(web, job.type, callback=attempt.number > 1 and await is_expected(web, job.job))
    if attempt.number > 1 and await children.are_on_record(web, job.job):
        return Answer(status=200, then=Then.CHILDREN)
    more = dict(attempt.headers)
    if type_.callback:
        more["Perdure-Callback"] = await _expected_callback(web, job, attempt)
    doubted = attempt.number > 1 and await _is_doubted(web, attempt)
    try:
        return type_, call_of(type_, job, attempt.key, more), doubted
    except Refused as error:  # nobody is asked, so it answers for no attempt before this one
        raise NotDone(error.why, retry_after=OURS_PAUSE) if doubted else error from None


async def _is_doubted(web: Web, attempt: Attempt) -> bool:
    """Whether an attempt before this one may have been done. Without a record it may."""
    none_is = "select earlier_doubt is null from perdure.effect where key = $1"
    return not await web.pool.fetchval(none_is, attempt.key)


async def _expected_callback(web: Web, job: Call, attempt: Attempt) -> str:
    """The address for the page's callback, which is recorded before the page receives it."""
    token = callback_token(attempt.key)
    await web.pool.execute("select web_job.expect_callback($1, $2)", digest_of(token), job.job)
    return f"{web_settings().callback_url}/{token}"
