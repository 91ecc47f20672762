"""Families: how far the children of each master are; of one family, which children are in which state, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perdure.console import Page, Role, View
from perdure.console.page import Response
from perdure.database import Connection
from perdure.errors import InvalidSetting, NoSuchEntity
from workers.web_jobs.console.tables import LIFECYCLE, query, reading

ROWS = 50
"""On one page."""
LOOKED_AT = 10_000
"""Families, or open children, that one page looks through at most."""
WHICH = {"": "every one", "running": "not ended", "failures": "with failures"}
STATES = {
    "failed": "failed",
    "cancelled": "cancelled",
    "processing": "processing",
    "held": "held",
    "scheduled": "scheduled",
    "listed": "waiting",
    "complete": "done",
}
"""The states of a child's row, as the page calls them."""
_ENDED = ("complete", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class Family:
    """How far the children of a master are.

    Attributes:
        row: of `web_job.family`, and of its master's row.
    """

    row: Mapping[str, Any]

    @property
    def ended(self) -> bool:
        """Whether its master has ended."""
        return self.row["state"] in _ENDED

    @property
    def parts(self) -> list[tuple[str, str, int]]:
        """The parts of a bar: kind, words, how many."""
        kinds = (
            *(("well", "done"), ("bad", "failed"), ("doubt", "refused"), ("soft", "cancelled")),
            *(("open", "open"), ("waiting", "waiting")),
        )
        return [(kind, name, self.row[name]) for kind, name in kinds]

    @property
    def bar(self) -> list[tuple[str, int]]:
        """The same without words."""
        return [(kind, count) for kind, _, count in self.parts]

    @property
    def sentence(self) -> str:
        """The same as text."""
        counted = ", ".join(f"{count:,} {name}" for _, name, count in self.parts if count)
        return f"{self.row['listed']:,} children: {counted or 'none'}"


async def show(view: View) -> Response:
    """One page of families, by the id of their master."""
    which, after = view.query.get("which", ""), view.query.get("after", "")
    if which not in WHICH:
        raise InvalidSetting(f"{which!r} chooses no families; there are: {', '.join(filter(None, WHICH))}")
    async with reading(view) as connection:
        rows = await connection.fetch(query("families"), after, LOOKED_AT, which, ROWS + 1)
        near = await connection.fetchrow(query("families_near"), after, LOOKED_AT)
    assert near is not None
    last = near["last"] if near["families"] == LOOKED_AT else None
    return view.render(
        "web-jobs/families.html",
        families=[Family(dict(each)) for each in rows[:ROWS]],
        which=which,
        choices=WHICH,
        after=rows[ROWS - 1]["master"] if len(rows) > ROWS else last,
    )


async def one(view: View) -> Response:
    """One family, and a page of its children in one state."""
    after = view.query.get("after", "")
    async with reading(view) as connection:
        family = await read_family(connection, view.query.get("id", ""))
        state = view.query.get("state") or _first_state(family)
        if state not in STATES:
            raise InvalidSetting(f"{state!r} is no state of a child; there are: {', '.join(STATES)}")
        master = family.row["master"]
        opened = await connection.fetchrow(query("open_children"), master, LOOKED_AT)
        children = await connection.fetch(query("children"), master, state, after, ROWS + 1)
        refused = await connection.fetch(query("refused_children"), master, ROWS + 1)
    assert opened is not None
    return view.render(
        "web-jobs/family.html",
        family=family,
        row=family.row,
        opened=opened,
        most=LOOKED_AT,
        states=STATES,
        state=state,
        children=children[:ROWS],
        after=children[ROWS - 1]["id"] if len(children) > ROWS else None,
        refused=refused[:ROWS],
        may=view.person.may(Role.BULK, LIFECYCLE, None),
    )


async def read_family(connection: Connection, master: str) -> Family:
    """The family of a master.

    Raises:
        NoSuchEntity: it has none.
    """
    row = await connection.fetchrow(query("family"), master)
    if row is None:
        raise NoSuchEntity(f"web-job/{master} has no children: it is no master, or its page has not listed them yet")
    return Family(dict(row))


def _first_state(family: Family) -> str:
    """What somebody who opens the page looks for."""
    row = family.row
    for name, state in (("failed", "failed"), ("open", "processing"), ("cancelled", "cancelled")):
        if row[name]:
            return state
    return "complete" if row["done"] else "listed"


PAGES = [
    Page("families", "/families", show, menu="Families", lifecycle=LIFECYCLE),
    Page("families.one", "/families/one", one, lifecycle=LIFECYCLE),
]
