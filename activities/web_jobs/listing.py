"""Fetches one page of a master's children, and puts it on record: once, however often it is asked for."""

from __future__ import annotations

import json

from activities.http.exchange import Reply
from activities.http.retry_after import pause_of
from activities.web_jobs import children
from activities.web_jobs.answer import json_of
from activities.web_jobs.asking import ask, without_doubt
from activities.web_jobs.contracts import Family, Page
from activities.web_jobs.keys import key_of_call
from activities.web_jobs.outcomes import ending_of_reading
from activities.web_jobs.readiness import ready_type
from activities.web_jobs.request import get
from activities.web_jobs.resources import Web, web_of
from perdure import Attempt, Refused

_RECORDED = "select web_job.summary(f) from web_job.family f where master = $1 and page > $2"
_SEEN = """select exists (select from perdure.effect where lifecycle = 'web-job' and id = $1 and status = 'done'
    and effect like 'list-children%' and receipt->>'next_page' = $2)"""


async def fetch(page: Page, attempt: Attempt) -> Family:
    """Fetch it.

    Raises:
        NotDone: the page did not answer: asking again is harmless.
        Refused: the list cannot be used.
    """
    with without_doubt("asked for more children"):
        return await _fetched(page, attempt)


async def _fetched(page: Page, attempt: Attempt) -> Family:
    web = web_of(attempt)
    if recorded := await web.pool.fetchval(_RECORDED, page.master, page.number):
        return Family.model_validate(json.loads(recorded))
    type_ = await ready_type(web, page.type)
    if page.number >= children.MOST_PAGES:
        raise Refused(f"its list has more than {children.MOST_PAGES:,} pages")
    key = await key_of_call(web, page.master, attempt.key)
    request = get(type_, page.url, page.master, key, attempt.headers)
    with web.turnstile.passed(f"the calls of {type_.name}", type_.at_once):
        reply = await ask(request, attempt, harmless=True)
    pause = pause_of(reply.headers.get("Retry-After"))
    if end := ending_of_reading(reply.status, f"answered {reply.status}", pause):
        raise end
    listed = _listing(reply, page)
    if listed.next_page is not None and await _seen(web, page.master, listed.next_page):
        raise Refused("its list goes round in a circle: the next page was read before")
    return await children.put_on_record(web, page.master, page.number, listed)


def _listing(reply: Reply, page: Page) -> children.Listing:
    try:
        return children.listing(json_of(reply), master=page.master, url=page.url, following=reply.next)
    except children.Unusable as error:
        raise Refused(str(error)) from None
    except ValueError as error:
        raise Refused(f"its JSON can't be read: {error}") from None


async def _seen(web: Web, master: str, url: str) -> bool:
    return bool(await web.pool.fetchval(_SEEN, master, url))
