"""Audit: who did what, the newest first; by person, entity, words and time, and as a file."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import asdict
from typing import Any

from starlette.responses import Response

from perdure._operations.audit import AuditSelection, read_acts
from perdure.console.chosen import instant
from perdure.console.exporting import exported
from perdure.console.page import Page, View
from perdure.errors import InvalidSetting

ROWS = 50
"""On one page."""
_FILTERS = ("by", "lifecycle", "id", "why", "since")
_COLUMNS = ("seq", "at", "by", "why", "lifecycle", "id", "generation", "state", "role")


async def show(view: View) -> Response:
    """One page."""
    async with view.reading() as connection:
        found = await read_acts(connection, _wanted(view), ROWS, _before(view))
    same = {name: view.query[name] for name in _FILTERS if name in view.query}
    return view.render("audit.html", found=found, query=view.query, same=same)


async def export(view: View) -> Response:
    """All acts that the filters choose, as a file."""
    return await exported(view, "perdure-audit", _COLUMNS, _all(view, _wanted(view)))


async def _all(view: View, wanted: AuditSelection) -> AsyncGenerator[Mapping[str, Any]]:
    before = None
    while True:
        async with view.reading() as connection:
            found = await read_acts(connection, wanted, 1000, before)
        for each in found.acts:
            yield asdict(each)
        if found.before is None:
            return
        before = found.before


def _wanted(view: View) -> AuditSelection:
    query = view.query
    return AuditSelection(
        by=query.get("by"),
        lifecycle=query.get("lifecycle"),
        id=query.get("id"),
        why=query.get("why"),
        since=instant(query.get("since")),
        reach=view.reach(),
    )


def _before(view: View) -> int | None:
    given = view.query.get("before")
    if given is None:
        return None
    if not given.isascii() or not given.isdecimal() or len(given) > 18:
        raise InvalidSetting(f"{given[:40]!r} is no place in this list: begin at its first page")
    return int(given)


PAGES = [Page("audit", "/audit", show, menu="Audit"), Page("audit.export", "/audit/export", export)]
