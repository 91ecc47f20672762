"""Polls a page that is at work until it is done; between two polls others may poll theirs."""

from __future__ import annotations

import asyncio
import json
import math
from datetime import timedelta
from typing import Any

from activities.http.exchange import Reply
from activities.http.retry_after import pause_of
from activities.web_jobs import children
from activities.web_jobs.answer import answer_of, json_of
from activities.web_jobs.asking import ask, without_doubt
from activities.web_jobs.callbacks import CALLED_BACK, has_called_back
from activities.web_jobs.contracts import LAST_LOOK, Answer, Follow, Then
from activities.web_jobs.job_type import JobType
from activities.web_jobs.keys import key_of_call
from activities.web_jobs.origins import within_origin
from activities.web_jobs.outcomes import ending_of_reading
from activities.web_jobs.readiness import ready_type
from activities.web_jobs.request import get
from activities.web_jobs.resources import Web, web_of
from activities.web_jobs.turnstile import Place
from perdure import Attempt, NotDone, Refused
from perdure.contracts.attempt import boot_clock

FIRST, LONGEST, GROWTH = 1.0, 30.0, 1.5
"""Seconds between two looks, if the page does not name a time."""
PATIENCE = 60.0
"""Seconds. A job whose next look is later gives up its slot until then."""
_SPARE = 2.0  # least seconds of the attempt for a look
_SHORT = 1_000  # bytes of progress


async def follow(job: Follow, attempt: Attempt) -> Answer:
    """Ask `job.location` until it is done, or the page has called back.

    Raises:
        NotDone: it is still at work, or did not say: asking again is harmless.
        Refused: it has failed, is gone, leads elsewhere, or has not ended in its time.
    """
    try:
        with without_doubt("asked how far it is"):
            return await _followed(job, attempt)
    except NotDone as error:
        if _left(attempt) > 0:
            raise
        raise Refused(f"the page has not ended in its time: {error.why}") from None


def _left(attempt: Attempt) -> float:
    """Seconds that the page has left to end. What is left of the effect after them is for the last look."""
    at = math.inf if attempt.useless_at is None else attempt.useless_at - LAST_LOOK.total_seconds()
    return at - boot_clock()


async def _followed(job: Follow, attempt: Attempt) -> Answer:
    web = web_of(attempt)
    if attempt.number > 1 and await children.are_on_record(web, job.job):
        return Answer(status=200, then=Then.CHILDREN)
    if await has_called_back(web, job.job):
        return CALLED_BACK
    type_ = await ready_type(web, job.type, disabled=True)  # its time goes on, and the page works on
    with web.turnstile.passed(f"those that {type_.name} is at work on", type_.at_once) as place:
        return await _follow(type_, job, attempt, web, place)


async def _follow(type_: JobType, job: Follow, attempt: Attempt, web: Web, place: Place) -> Answer:
    key = await key_of_call(web, job.job, attempt.key)
    url, pause = job.location, FIRST
    while True:
        request = get(type_, url, job.job, key, attempt.headers)
        reply = await ask(request, attempt, seconds=type_.timeout.total_seconds(), harmless=True)
        if await has_called_back(web, job.job):  # the callback counts, whatever this answer contains
            return CALLED_BACK
        if reply.status != 202:
            if url == job.location and (result := _result(reply, url)):
                url = result
                continue
            return await _ended(reply, url, job, web, type_)
        attempt.heartbeat(_progress(reply))
        wanted = pause_of(reply.headers.get("Retry-After"))
        pause, wait = min(pause * GROWTH, LONGEST), pause if wanted is None else wanted.total_seconds()
        wait = min(wait, max(_left(attempt), 0.0))
        if wait > PATIENCE or wait + _SPARE > attempt.remaining or _left(attempt) <= 0:
            raise NotDone("still at work", retry_after=timedelta(seconds=wait))
        asked_at = asyncio.get_running_loop().time()
        await place.rest(max(wait, 0.05))
        if place.lost:
            left = max(asked_at + wait - asyncio.get_running_loop().time(), 0.0)
            raise NotDone("still at work", retry_after=timedelta(seconds=left))


def _result(reply: Reply, url: str) -> str | None:
    """The address of the result, from a 303 (RFC 9110, 15.4.4), or a 302 as many send it. One redirect only, and none
    that leads nowhere or back: this answer counts then.
    """
    given = reply.headers.get("Location")
    if reply.status not in (302, 303) or not given:
        return None
    place = within_origin(url, given)
    if place is None:
        raise Refused(
            f"asked how far it is, the page answered {reply.status} with another origin, or an unreadable Location"
        )
    return None if place == url else place


async def _ended(reply: Reply, url: str, job: Follow, web: Web, type_: JobType) -> Answer:
    answered = f"asked how far it is, the page answered {reply.status}"
    if end := ending_of_reading(reply.status, answered, pause_of(reply.headers.get("Retry-After"))):
        raise end
    return await answer_of(reply, web=web, job=job.job, url=url, lists=bool(type_.children))


def _progress(reply: Reply) -> Any:
    """The text of the page, if it is short, for the Web UI beside the attempt."""
    try:
        body = json_of(reply)
    except ValueError:
        return "at work"
    progress = body.get("progress", body) if isinstance(body, dict) else body
    return progress if progress is not None and len(json.dumps(progress)) <= _SHORT else "at work"
