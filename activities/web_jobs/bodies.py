"""Calls pages by HTTP: one request, without retries. The progress of the request decides the outcome.

The code behind each body is in `activities/web_jobs`.
"""

from __future__ import annotations

from activities.web_jobs import calling, following, listing, looking_up
from activities.web_jobs.contracts import (
    CALL,
    CALL_INLINE,
    FIND_CALL,
    FOLLOW,
    LIST,
    Answer,
    Call,
    Family,
    Follow,
    Page,
)
from activities.web_jobs.settings import web_settings
from perdure import Attempt, LookupContext

web_settings()  # a worker with a wrong setting must not start


@CALL.performs
async def call_page(call: Call, attempt: Attempt) -> Answer:
    """Call the page of a job."""
    return await calling.call(call, attempt)


@CALL_INLINE.performs
async def call_page_inline(call: Call, attempt: Attempt) -> Answer:
    """Call the page of a job that answers soon."""
    return await calling.call(call, attempt)


@FOLLOW.performs
async def follow_page(follow: Follow, attempt: Attempt) -> Answer:
    """Ask a page that is at work until it is done."""
    return await following.follow(follow, attempt)


@FIND_CALL.answers
async def find_web_call(call: Call, question: LookupContext) -> Answer | None:
    """Ask the status URL of the job's type."""
    return await looking_up.look_up(call, question)


@LIST.performs
async def list_children(page: Page, attempt: Attempt) -> Family:
    """Fetch one page of a master's children, and put it on record."""
    return await listing.fetch(page, attempt)
