"""Findings: what reconciliations saw, with the advice for each; what is left for a person first."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from starlette.responses import Response

from perdure._operations.findings import FindingSelection, finding_kinds, select_findings
from perdure.console.page import Page, View
from perdure.errors import InvalidSetting

ROWS = 50
"""On one page."""
_WHICH = {"left": False, "mended": True}


async def show(view: View) -> Response:
    """One page."""
    query = view.query
    which = query.get("which")
    if which is not None and which not in _WHICH:
        raise InvalidSetting(f"{which!r} is no choice: {', '.join(_WHICH)}")
    wanted = FindingSelection(query.get("kind"), query.get("lifecycle"), _WHICH.get(which or ""), view.reach())
    async with view.reading() as connection:
        rows = await select_findings(connection, wanted, ROWS + 1, _place(query.get("after")))
        kinds = await finding_kinds(connection, view.reach())
    same = {name: query[name] for name in ("kind", "lifecycle", "which") if name in query}
    after = _written(rows[ROWS - 1].place) if len(rows) > ROWS else None
    return view.render("findings.html", rows=rows[:ROWS], kinds=kinds, query=query, same=same, after=after)


def _written(place: tuple[Any, ...]) -> str:
    mended, first_seen, *names = place
    return "\x1f".join(("1" if mended else "0", first_seen.isoformat(), *names))


def _place(after: str | None) -> tuple[Any, ...] | None:
    if after is None:
        return None
    try:
        mended, first_seen, kind, lifecycle, entity_id, about = after.split("\x1f")
        return mended == "1", datetime.fromisoformat(first_seen), kind, lifecycle, entity_id, about
    except ValueError:
        raise InvalidSetting("that is no place in this list: begin at its first page") from None


PAGES = [Page("findings", "/findings", show, menu="Findings")]
