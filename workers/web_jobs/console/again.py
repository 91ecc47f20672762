"""Only the failed again: what would be run again, and the act, by the master or for each child by itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from perdure import Entity
from perdure.console import Page, Role, View
from perdure.console.many import act_on_many, act_on_one
from perdure.console.page import Response
from perdure.console.verbs import VERBS, check_note, previewed_at
from perdure.database import Connection
from perdure.errors import InvalidSetting, NotNow
from workers.web_jobs.console.families import LOOKED_AT, read_family
from workers.web_jobs.console.tables import LIFECYCLE, query, reading

WAYS = ("family", "each")
_PAGE = 500


async def ask(view: View) -> Response:
    """The preview: nothing is done."""
    async with reading(view) as connection:
        family = await read_family(connection, view.query.get("id", ""))
        master = family.row["master"]
        doubtful = await connection.fetchrow(query("doubtful_children"), master, ["failed", "cancelled"], LOOKED_AT)
        sample = await connection.fetch(query("children"), master, "failed", "", 20)
        as_of = await connection.fetchval("select clock_timestamp()")
    return view.render(
        "web-jobs/again.html",
        family=family,
        row=family.row,
        doubtful=doubtful,
        most=LOOKED_AT,
        sample=sample,
        as_of=as_of,
        ways=_ways(family.ended, family.row["cancelled"]),
        allowed=view.person.may(Role.BULK, LIFECYCLE, None),
    )


async def act(view: View) -> Response:
    """Do what the preview showed. If the family has moved since, nothing is done."""
    form = view.form
    check_note(form, "why")
    as_of = previewed_at(form)
    async with reading(view) as connection:
        family = await read_family(connection, form.get("id", ""))
    row, way = family.row, form.get("way", "")
    if way not in WAYS:
        raise InvalidSetting(f"choose what is run again: {' or '.join(WAYS)}; {way!r} is neither")
    if way not in _ways(family.ended, row["cancelled"]) or (
        way == "family" and (form.get("failed"), form.get("cancelled")) != (str(row["failed"]), str(row["cancelled"]))
    ):
        raise NotNow(
            f"web-job/{row['master']}: its children have moved since the preview, nothing was done: look at it again"
        )
    if way == "family":
        answer = await act_on_one(view, VERBS["restart"], Entity(LIFECYCLE, row["master"]))
        notice = view.signed_notice(f"web-job/{row['master']}: {answer}")
        return view.redirect("/families/one", id=row["master"], notice=notice)
    failed, rest = partial(_failed, row["master"], as_of), view.link("/families/one", id=row["master"], state="failed")
    words = f"failed children of {row['master']}"
    return await act_on_many(view, VERBS["restart"], failed, words, row["failed"], rest)


def _ways(ended: bool, cancelled: int) -> list[str]:
    """By the master, once it has ended: then all that failed or was cancelled is run again. Each by itself: while the
    master leads its children, and where the cancelled ones are to stay as they are."""
    return ["family"] * ended + ["each"] * (not ended or cancelled > 0)


async def _failed(master: str, as_of: datetime, connection: Connection, after: Entity | None) -> Sequence[Entity]:
    """The next children that had failed by then."""
    rows = await connection.fetch(query("failed_by"), master, after.id if after else "", as_of, _PAGE)
    return [Entity(LIFECYCLE, row["id"]) for row in rows]


PAGES = [
    Page("families.again", "/families/again", ask, lifecycle=LIFECYCLE),
    Page("families.again.act", "/families/again", act, Role.BULK, method="POST", lifecycle=LIFECYCLE),
]
