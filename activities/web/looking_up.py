"""Looks up whether a call was done: has the page called back, and what does its status URL say."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from activities.contracts.web_job import Answer, Call, Then
from activities.settings import web_settings
from activities.web.answer import answer_of
from activities.web.asking import spanned
from activities.web.exchange import Exchange, Reply, Request
from activities.web.job_type import JobType
from activities.web.origins import forbidden
from activities.web.outcomes import pause_of
from activities.web.readiness import callback_token, digest_of, ready_type
from activities.web.request import get, url_of
from activities.web.resources import Web, web_of
from perdure import Key, NotDone, Question

SECONDS = 15.0
"""That it may take: less than the contract has."""
PAUSE = timedelta(seconds=2)
"""Between two looks at a page that is at work, where it does not say."""
UNKNOWN = (404, 410)
"""What says that the page knows nothing of it."""


async def look_up(call: Call, question: Question) -> Answer | None:
    """The receipt, or None where the page knows nothing of it.

    Raises:
        NotDone: it is at work on it, or anything else that is no answer.
    """
    web = web_of(question)
    type_ = await ready_type(web, call.type)
    if await _has_called_back(web, type_, question.key):
        return Answer(status=202, then=Then.CALLBACK)
    if type_.status_url is None:
        raise NotDone("its type has no status URL any more")
    url = url_of(type_.status_url, call, {"key": str(question.key), "token": question.key.token})
    if why := forbidden(url):
        raise NotDone(why)
    reply = await _asked(web, get(type_, url, call.job, question.key, {}))
    if reply.status in UNKNOWN:
        return None
    if reply.status // 100 != 2 or reply.status == 202:
        raise NotDone(f"the status URL answered {reply.status}")
    return await answer_of(reply, web=web, job=call.job, url=url)


async def _asked(web: Web, request: Request) -> Reply:
    """What the status URL says; where the page is at work on it, what it says a little later."""
    clock = asyncio.get_running_loop().time
    end = clock() + SECONDS
    while True:
        reply = await spanned(Exchange(request, web.names, seconds=end - clock()), request)
        pause = pause_of(reply.headers.get("Retry-After")) or PAUSE
        if reply.status != 202 or clock() + pause.total_seconds() + 1 > end:
            return reply
        await asyncio.sleep(pause.total_seconds())


async def _has_called_back(web: Web, type_: JobType, key: Key) -> bool:
    """Then the lifecycle has heard it, or will: it only has to wait for it."""
    if not type_.callback or web_settings().callback_secret is None:
        return False
    asked = "select exists (select from web_job.callback where digest = $1 and called_at is not null)"
    return bool(await web.pool.fetchval(asked, digest_of(callback_token(key))))
