"""A page's list of children, which is read whole or not at all, and recorded before the lifecycle receives it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from activities.web_jobs.contracts import Child, Family
from activities.web_jobs.origins import within_origin
from activities.web_jobs.plain_json import flaw_of
from activities.web_jobs.resources import Web
from perdure.contracts.keys import check_entity_id
from perdure.errors import InvalidEntity

MOST_CHILDREN = 10_000
"""On one page."""
MOST_SECONDS = 60.0
"""For the record of one page: `MOST_CHILDREN` take longer than other statements may."""
MOST_PAGES = 100_000
LARGEST_WINDOW = 10_000


class Unusable(Exception):
    """A list cannot be used. The message names the reason and the child."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of children.

    Attributes:
        children: as `web_job.list_children` takes them.
        next_page: where more are listed.
    """

    children: list[dict[str, Any]]
    next_page: str | None = None
    window: int = 50
    tolerates: int | None = 0


def lists_children(body: Any) -> bool:
    """Whether an answer is a list of children at all."""
    return isinstance(body, Mapping) and body.get("children") is not None


def listing(body: Any, *, master: str, url: str, following: str | None) -> Listing:
    """The list of a page.

    Args:
        url: of the page.
        following: where its `Link: rel=next` leads.

    Raises:
        Unusable: one of them can't be a job, or the rest is elsewhere.
    """
    if not lists_children(body) or not isinstance(body["children"], list):
        raise Unusable('it is no list of children: {"children": [{"id": ..., "type": ...}, ...]}')
    if len(body["children"]) > MOST_CHILDREN:
        raise Unusable(f"it lists {len(body['children']):,} children; {MOST_CHILDREN:,} is the most on one page")
    return Listing(
        children=list(_children(body["children"], master)),
        next_page=_next(url, following),
        window=_number(body, "window", 50, least=1, most=LARGEST_WINDOW),
        tolerates=None if body.get("tolerates", 0) is None else _number(body, "tolerates", 0, least=0, most=2**31 - 1),
    )


async def put_on_record(web: Web, master: str, page: int, listed: Listing) -> Family:
    """Put one page on record, once: page 0 is the answer to the master's own call."""
    family = await web.pool.fetchval(
        "select web_job.list_children($1, $2, $3, $4, $5, $6)",
        *(master, page, json.dumps(listed.children), listed.next_page, listed.window, listed.tolerates),
        timeout=MOST_SECONDS,
    )
    return Family.model_validate(json.loads(family))


async def are_on_record(web: Web, master: str) -> bool:
    """Whether a list has come on record, although the answer that brought it may have been lost."""
    return bool(await web.pool.fetchval("select exists (select from web_job.family where master = $1)", master))


def _children(given: list[Any], master: str) -> Iterator[dict[str, Any]]:
    seen: set[str] = set()
    for number, each in enumerate(given, start=1):
        child = _child(each, number, master)
        if child.id in seen:
            raise Unusable(f"child {number} has the id {child.id!r}, as another one before it")
        seen.add(child.id)
        yield child.model_dump(mode="json")


def _child(given: Any, number: int, master: str) -> Child:
    named = f"child {number}"
    if isinstance(given, dict) and isinstance(given.get("id"), str):
        named += f" ({given['id'][:60]!r})"
    try:
        child = Child.model_validate(given)
        check_entity_id(f"{master}/{child.id}")
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ".".join(str(each) for each in first["loc"])[:60]
        raise Unusable(f"{named}: {where}: {first['msg'].lower()}" if where else f"{named} is no object") from None
    except InvalidEntity as error:
        raise Unusable(f"{named}: {error}") from None
    if "/" in child.id:
        raise Unusable(f"{named}: its id has a slash, which stands between a master's id and its child's")
    if flaw := flaw_of(given):
        raise Unusable(f"{named}: {flaw}")
    return child


def _next(url: str, following: str | None) -> str | None:
    if following is None:
        return None
    resolved = within_origin(url, following)
    if resolved is None:
        raise Unusable("the next page of its list is at another origin, or its URL can't be read")
    if resolved == url:
        raise Unusable("the next page of its list is the same page")
    return resolved


def _number(body: Mapping[str, Any], name: str, usual: int, *, least: int, most: int) -> int:
    given = body.get(name, usual)
    if type(given) is not int or not least <= given <= most:
        raise Unusable(f"its {name!r} is no whole number from {least:,} to {most:,}")
    return given
