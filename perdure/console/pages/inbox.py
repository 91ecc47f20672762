"""Inbox: all that waits for a person, grouped by lifecycle, effect and reason; and the items of one group."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from starlette.responses import Response

from perdure._operations.consequences import follows, takes_receipt
from perdure._operations.doubts import count_doubts
from perdure._operations.inbox import Group, read_inbox
from perdure._operations.selection import oldest
from perdure.console.chosen import DOUBT_FILTERS, Doubtful, doubtful_ones, open_ones, picked, place_of
from perdure.console.evidence import evidence
from perdure.console.exporting import exported
from perdure.console.page import Page, View
from perdure.console.roles import Role
from perdure.errors import InvalidSetting

COUNTED = 1000
"""A group with more than that has a note on its page; the preview of an act counts all."""
ITEMS = 25
"""Of a group on one page."""
_COLUMNS = ("lifecycle", "id", "generation", "effect", "key", "token", "attempts", "since", "why", "state", "tenant")


async def show(view: View) -> Response:
    """The groups; only those of one lifecycle or effect where the address names one."""
    reach, sources = view.reach(), view.sources
    lifecycle, effect = view.query.get("lifecycle"), view.query.get("effect")
    named = None if effect is None else effect.partition("/")[0]

    async def read() -> list[Group]:
        async with sources.reading() as connection:
            return await read_inbox(connection, reach, lifecycle, named)

    seen = await sources.kept(("inbox", reach, lifecycle, named), read, fresh=2, stale=30)
    shown = [
        (each, _address(view, each), follows(view.app, each.lifecycle, each.states[0], each.effect, ended=False))
        if each.kind == "doubt" and each.effect
        else (each, _address(view, each), {})
        for each in seen.value
    ]
    return view.render(
        "inbox.html",
        seen=seen,
        shown=shown,
        several=_several(seen.value),
        jobs=sum(each.ended is None for each in view.console.jobs.all_of(view.person)),
        cut=any(each.more for each in seen.value),
        only=" of ".join(each for each in (named, lifecycle) if each),
    )


def _several(groups: Sequence[Group]) -> list[Group]:
    """One of the groups of each effect whose doubts have several reasons."""
    found = {(each.lifecycle, each.effect): each for each in groups if each.kind == "doubt" and each.alike > 1}
    return list(found.values())


async def doubts(view: View) -> Response:
    """The effects in doubt of one group, the oldest first."""
    chosen = Doubtful(doubtful_ones(view.query, view.reach()))
    async with view.reading() as connection:
        items = await chosen.oldest(connection, _after(view), ITEMS + 1)
        total = await count_doubts(connection, chosen.wanted, COUNTED + 1)
    items, more = items[:ITEMS], len(items) > ITEMS
    shown = [
        (each, follows(view.app, each.lifecycle, each.state, each.effect, ended=each.ended, attempts=each.attempts))
        for each in items
    ]
    same = picked(view.query, DOUBT_FILTERS)
    return view.render(
        "doubts.html",
        shown=shown,
        seen=await evidence(view.sources, items),
        total=total,
        counted_up_to=COUNTED,
        after=place_of(items[-1]) if more else None,
        same=same,
        receipt=takes_receipt(view.app, same.get("effect", "")),
    )


async def follow(view: View) -> Response:
    """To the next doubt of a group; behind the last one, to the group."""
    chosen = Doubtful(doubtful_ones(view.query, view.reach()))
    async with view.reading() as connection:
        found = await chosen.oldest(connection, _after(view), 1)
    if not found:
        same = picked(view.query, DOUBT_FILTERS)
        return view.redirect("/inbox/doubts", **same)
    return view.redirect("/act/resolve", lifecycle=found[0].lifecycle, id=found[0].id, key=found[0].key)


async def export(view: View) -> Response:
    """All effects in doubt of a group as a file, to be joined with what the other side has on record."""
    return await exported(view, "perdure-in-doubt", _COLUMNS, _all(view))


async def _all(view: View) -> AsyncGenerator[Mapping[str, Any]]:
    chosen, after = Doubtful(doubtful_ones(view.query, view.reach())), None
    while True:
        async with view.reading() as connection:
            found = await chosen.oldest(connection, after, 1000)
        for each in found:
            yield {**asdict(each), "token": each.token}
        if not found:
            return
        after = (found[-1].deadline, found[-1].key)


async def attention(view: View) -> Response:
    """The entities that need a person for one reason, without a doubt, the longest in their state first."""
    wanted = open_ones({**view.query, "attention": "on", "undoubted": "on"}, view.reach())
    async with view.reading() as connection:
        rows = await oldest(connection, replace(wanted, limit=ITEMS + 1))
    return view.render("attention.html", rows=rows[:ITEMS], more=len(rows) > ITEMS, same=dict(view.query))


def _address(view: View, group: Group) -> str:
    if group.kind == "rejected":
        return view.link("/rejected", lifecycle=group.lifecycle, reason=group.reason)
    if group.kind == "attention":
        return view.link("/inbox/attention", lifecycle=group.lifecycle, reason=group.reason)
    return view.link(
        "/inbox/doubts",
        lifecycle=group.lifecycle,
        effect=group.effect,
        why=group.reason,
        unexplained="" if group.reason else "on",
        ended="on" if group.kind == "ended" else "",
    )


def _after(view: View) -> tuple[datetime, str] | None:
    given = view.query.get("after")
    if given is None:
        return None
    at, _, key = given.partition(" ")
    try:
        return datetime.fromisoformat(at).astimezone(), key
    except (ValueError, OverflowError):
        raise InvalidSetting(f"{given!r} is no place in this list: begin at its first page") from None


PAGES = [
    Page("inbox", "/inbox", show, menu="Inbox"),
    Page("inbox.doubts", "/inbox/doubts", doubts, Role.LOOK),
    Page("inbox.next", "/inbox/next", follow),
    Page("inbox.export", "/inbox/doubts/export", export),
    Page("inbox.attention", "/inbox/attention", attention, Role.LOOK),
]
