"""List: open or finished entities by the filters of `perdure list`, which are the address; as pages, CSV and JSON. And
the search for an id or a key."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from starlette.responses import Response

from perdure._operations.bulk import Name
from perdure._operations.condition import Condition
from perdure._operations.finished import select_finished
from perdure._operations.search import search
from perdure._operations.selection import check, check_lifecycle, known_lifecycles, known_states, next_oldest, select
from perdure.console.chosen import FINISHED_FILTERS, OPEN_FILTERS, finished_ones, open_ones, picked
from perdure.console.exporting import exported
from perdure.console.page import Page, View
from perdure.errors import InvalidSetting

ROWS = 50
"""On one page."""
_OPEN = ("lifecycle", "id", "generation", "state", "since", "condition", "attention", "tenant")
_FINISHED = ("lifecycle", "id", "generation", "state", "finished_at")


async def show(view: View) -> Response:
    """One page. Where lifecycle and state are given, those that have been in it for longest come first."""
    query, finished = view.query, "finished" in view.query
    async with view.reading() as connection:
        rows = await _rows(view, connection, query.get("after"), ROWS + 1)
        lifecycles = sorted(await known_lifecycles(connection, view.app, view.reach()))
        states = sorted(await known_states(connection, query["lifecycle"], view.app)) if "lifecycle" in query else []
    more = rows[ROWS - 1] if len(rows) > ROWS else None
    filters = picked(query, FINISHED_FILTERS if finished else OPEN_FILTERS)
    return view.render(
        "list.html",
        rows=rows[:ROWS],
        query=query,
        filters=filters,
        same=filters | picked(query, ("finished",)),
        finished=finished,
        states=states,
        after=_place(query, more) if more else None,
        lifecycles=lifecycles,
        conditions=[each for each in Condition if each is not Condition.FINISHED],
    )


async def export(view: View) -> Response:
    """All rows that the filters choose, as a file."""
    finished = "finished" in view.query
    name, columns = ("perdure-finished", _FINISHED) if finished else ("perdure-open", _OPEN)
    return await exported(view, name, columns, _all(view))


async def _all(view: View) -> AsyncGenerator[Mapping[str, Any]]:
    after = None
    while True:
        async with view.reading() as connection:
            rows = await _rows(view, connection, after, 500)
        for row in rows:
            yield asdict(row)
        if not rows:
            return
        after = _place(view.query, rows[-1])


async def find(view: View) -> Response:
    """What an id or a key leads to; to the entity itself, where it is the only one."""
    text = view.query.get("q", "").strip()[:1000]
    async with view.reading() as connection:
        found = await search(connection, text, view.config.scope, view.reach())
    exact = [each for each in found if each.exact]
    if len(exact) == 1:
        return view.redirect(f"/entity/{exact[0].lifecycle}", id=exact[0].id)
    return view.render("search.html", text=text, found=found)


async def _rows(view: View, connection: Any, after: str | None, limit: int) -> Sequence[Any]:
    query = view.query
    if "finished" in query:
        finished = replace(finished_ones(query, view.reach()), limit=limit)
        if finished.lifecycle is not None:
            await check_lifecycle(connection, finished.lifecycle, view.app, finished.reach)
        return await select_finished(connection, finished, _name(after))
    wanted = replace(open_ones(query, view.reach()), limit=limit)
    await check(connection, wanted, view.app)
    if _by_age(query):
        return await next_oldest(connection, wanted, _moment(after))
    return await select(connection, wanted, _name(after))


def _by_age(query: Mapping[str, str]) -> bool:
    """An index has them in that order; few of many that are in doubt may be its last ones."""
    return not {"finished", "in_doubt"} & query.keys() and {"lifecycle", "state"} <= query.keys()


def _place(query: Mapping[str, str], row: Any) -> str:
    """Where the next page begins."""
    return f"{row.since.isoformat()} {row.lifecycle}/{row.id}" if _by_age(query) else f"{row.lifecycle}/{row.id}"


def _name(after: str | None) -> Name | None:
    return None if after is None else Name.of(after)


def _moment(after: str | None) -> tuple[datetime, str, str] | None:
    if after is None:
        return None
    at, _, name = after.partition(" ")
    try:
        return datetime.fromisoformat(at).astimezone(), *Name.of(name)
    except (ValueError, OverflowError):
        raise InvalidSetting(f"{after!r} is no place in this list: begin at its first page") from None


PAGES = [
    Page("list", "/list", show, menu="List"),
    Page("list.export", "/export", export),
    Page("list.search", "/search", find),
]
