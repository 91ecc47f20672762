"""Calls pages by HTTP: one request, no retry of its own; what became of it is told by how far it came."""

from __future__ import annotations

import json

import aiohttp

from activities.contracts.web_job import (
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
from activities.web.job_type import read_type
from perdure import Attempt, NotDone, Question, Refused


@CALL.performs
async def call_page(call: Call, attempt: Attempt) -> Answer:
    """Call the page of a job."""
    return await _call(call, attempt)


@CALL_INLINE.performs
async def call_page_inline(call: Call, attempt: Attempt) -> Answer:
    """Call the page of a job that answers soon."""
    return await _call(call, attempt)


async def _call(call: Call, attempt: Attempt) -> Answer:
    # first sketch: replaced
    async with attempt.resources.pool.acquire() as connection:
        type_ = await read_type(connection, call.type)
    if type_ is None or type_.disabled:
        raise NotDone("held")
    async with aiohttp.ClientSession() as session:
        attempt.before_first_byte()
        async with session.request(
            type_.method, type_.url, data=json.dumps(call.payload or call.params, separators=(",", ":"))
        ) as response:
            if 400 <= response.status < 500:
                raise Refused(f"answered {response.status}")
            response.raise_for_status()
            return Answer(status=response.status)


@FOLLOW.performs
async def follow_page(follow: Follow, attempt: Attempt) -> Answer:
    """Ask a page that is at work until it is done."""
    raise NotDone("not built yet")


@FIND_CALL.answers
async def find_web_call(call: Call, question: Question) -> Answer | None:
    """Ask the status URL of the job's type."""
    return None


@LIST.performs
async def list_children(page: Page, attempt: Attempt) -> Family:
    """Fetch one page of a master's children, and put it on record."""
    raise NotDone("not built yet")
