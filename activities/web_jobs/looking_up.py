"""Looks up whether a call was done, by the page's callback and its status URL."""

from __future__ import annotations

from activities.http.exchange import Exchange, spanned
from activities.web_jobs import children
from activities.web_jobs.answer import answer_of
from activities.web_jobs.callbacks import CALLED_BACK, has_called_back, is_expected
from activities.web_jobs.contracts import Answer, Call, Then
from activities.web_jobs.origins import forbidden
from activities.web_jobs.readiness import ready_type
from activities.web_jobs.request import get, url_of
from activities.web_jobs.resources import web_of
from activities.web_jobs.settings import web_settings
from perdure import LookupContext, NotDone, Refused

SECONDS = 15.0
"""That it may take: less than the contract has."""
UNKNOWN = (404, 410)
"""Statuses of a page that has no such job."""


async def look_up(call: Call, question: LookupContext) -> Answer | None:
    """The receipt, or None if the page has no such job.

    Children on record are those of the call, whose answer was lost. A 2xx means that the page was called, whatever else
    the answer contains: it is a receipt with the next step. A page that is at work has taken the order, and is asked
    until it is done.

    Raises:
        NotDone: the answer does not show it.
    """
    web = web_of(question)
    if await children.are_on_record(web, call.job):
        return Answer(status=200, then=Then.CHILDREN)
    if await has_called_back(web, call.job):
        return CALLED_BACK
    type_ = await ready_type(web, call.type, disabled=True, callback=await is_expected(web, call.job))
    if type_.status_url is None:
        raise NotDone("its type has no status URL any more")
    url = url_of(type_.status_url, call, {"key": str(question.key), "token": question.key.token})
    if why := forbidden(url):
        raise NotDone(why)
    request = get(type_, url, call.job, question.key, {})
    reply = await spanned(Exchange(request, web.names, bounds=web_settings().bounds, seconds=SECONDS), request)
    if reply.status in UNKNOWN:
        return None
    if reply.status // 100 != 2:
        raise NotDone(f"the status URL answered {reply.status}")
    try:
        answer = await answer_of(
            reply, web=web, job=call.job, url=url, callback=type_.callback, lists=bool(type_.children)
        )
    except Refused as error:
        return Answer(status=reply.status, then=Then.UNUSABLE, body=error.why)
    if reply.status == 202 and answer.then is Then.NOTHING:
        return answer.model_copy(update={"then": Then.FOLLOW, "location": url})
    return answer
