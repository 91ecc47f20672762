"""Reads a page's answer of 2xx: the receipt, and the next step."""

from __future__ import annotations

from typing import Any

from activities.http.exchange import Reply
from activities.http.retry_after import pause_of
from activities.web_jobs import children
from activities.web_jobs.contracts import Answer, Then
from activities.web_jobs.origins import within_origin
from activities.web_jobs.plain_json import flaw_of, parsed
from activities.web_jobs.resources import Web
from perdure import Refused

MOST_KEPT = 16_000
"""Limit of the body in a receipt, in bytes. Histories and queries contain it."""


async def answer_of(
    reply: Reply, *, web: Web | None, job: str, url: str, callback: bool = False, lists: bool = False
) -> Answer:
    """The receipt. Children are on record before it is there.

    Args:
        web: None = children that are listed are not put on record.
        url: that was asked.
        callback: the page may call back.
        lists: the page may list children.

    Raises:
        Refused: the page reports that it was done, and its answer cannot be used. Not in doubt, since calling
            again would bring the same; not done, since children would be lost in silence.
    """
    body, flaw = _body(reply)
    pause = pause_of(reply.headers.get("Retry-After"))
    receipt = Answer(
        status=reply.status,
        body=body if len(reply.body or b"") <= MOST_KEPT else None,
        then=Then.NOTHING,
        retry_after=None if pause is None else pause.total_seconds(),
    )
    if reply.status == 202 and (place := reply.headers.get("Location")):
        return receipt.model_copy(update={"then": Then.FOLLOW, "location": _location(url, place)})
    if reply.status == 202 and callback:
        return receipt.model_copy(update={"then": Then.CALLBACK})
    if flaw is not None and _may_list_children(reply, lists):
        raise Refused(f"answered {reply.status}, so it was called; but its JSON can't be read: {flaw}")
    if not children.lists_children(body):
        return receipt
    try:
        listed = children.listing(body, master=job, url=url, following=reply.next)
    except children.Unusable as error:
        raise Refused(f"answered {reply.status}, so it was called; but its children can't be used: {error}") from None
    if web is not None:
        await children.put_on_record(web, job, 0, listed)
    return receipt.model_copy(update={"then": Then.CHILDREN, "children": len(listed.children), "body": None})


def json_of(reply: Reply) -> Any:
    """The JSON data of a body.

    Raises:
        ValueError: it has none that can be used.
    """
    if reply.too_long or reply.body is None:
        raise ValueError("it is longer than PERDURE_WEB_MOST_RESPONSE")
    return parsed(reply.body)


def _body(reply: Reply) -> tuple[Any, str | None]:
    """JSON data, else text, None if nothing can be kept; and why it is no JSON data, None if it is, or empty."""
    if reply.too_long:
        return None, "it is longer than PERDURE_WEB_MOST_RESPONSE"
    if _is_encoded(reply):
        return None, "it is encoded, which was not asked for"
    raw = reply.body or b""
    try:
        return json_of(reply), None
    except ValueError as error:
        text = raw.decode("utf-8", "replace")
        return None if flaw_of(text) or not text else text, str(error) if raw.strip() else None


def _may_list_children(reply: Reply, lists: bool) -> bool:
    """Whether children could be lost with a body that can't be read."""
    if lists or b'"children"' in (reply.body or b""):
        return True
    return (reply.too_long or _is_encoded(reply)) and "json" in reply.headers.get("Content-Type", "").lower()


def _is_encoded(reply: Reply) -> bool:
    return reply.headers.get("Content-Encoding", "identity").lower() != "identity"


def _location(url: str, place: str) -> str:
    resolved = within_origin(url, place)
    if resolved is None:
        raise Refused("answered 202, so it is at work; but at another origin, or its Location can't be read")
    return resolved
