"""Job types: the rows of `web_job.type`, also those that can't be used; to test one, to disable and enable it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from pydantic import ValidationError

from activities.web_jobs import catalogue
from activities.web_jobs.catalogue import FIELDS, Found
from activities.web_jobs.durations import written
from activities.web_jobs.job_type import JobType, Unusable, shown_headers
from activities.web_jobs.trial import NoCall, Trial
from perdure.console import Page, Role, View
from perdure.console.guarding import log
from perdure.console.page import Response
from perdure.contracts.effects import first_problem
from perdure.database import Connection
from perdure.errors import InvalidInput, InvalidSetting, NoSuchEntity, NotNow
from perdure.logs import log_event
from workers.web_jobs.console.tables import LIFECYCLE, query, reading

ROWS = 50
"""Changes on one page."""
JOBS = 20
"""Held jobs, and failed ones, that are shown."""
LONGEST_TEST = timedelta(minutes=1)
"""Of a call that the console makes while a person waits."""
LET_GO = 5
"""Pages of 1,000 held jobs that are released at once; the others look again by themselves within ten minutes."""
_LONGEST_WHY = 500
_DONE = {"disable": "is disabled: its jobs are held", "enable": "is enabled"}


async def show(view: View) -> Response:
    """All of them."""
    async with reading(view) as connection:
        found = await catalogue.every_type(connection)

    async def counted() -> dict[str, dict[str, int]]:
        async with view.reading() as connection:
            return dict(await catalogue.standing(connection))

    seen = await view.sources.kept("job types", counted, fresh=2, stale=60)
    return view.render("web-jobs/job_types.html", types=[_line(each, seen.value) for each in found], seen=seen)


async def one(view: View) -> Response:
    """One of them: its fields, its jobs, and who changed it."""
    return await _page(view, view.query.get("name", ""))


async def act(view: View) -> Response:
    """Disable it, with the reason, or enable it; who did so stands on its page."""
    name, verb = view.form.get("name", ""), view.form.get("act", "")
    note = " ".join(view.form.get("note", "").split())
    if verb not in _DONE:
        raise InvalidSetting(f"no act is named {verb!r}; there are: {', '.join(_DONE)}")
    if not 1 <= len(note) <= _LONGEST_WHY:
        raise InvalidSetting(f"say why, in 1 to {_LONGEST_WHY} characters, for everybody who looks at its jobs")
    await _record(view, name, verb, note)
    done = _DONE[verb] + (await _release(view, name) if verb == "enable" else "")
    view.sources.outdate()
    return view.redirect("/job-types/one", name=name, notice=view.signed_notice(f"{name} {done}"))


async def test(view: View) -> Response:
    """Call its page once: a real call. That it was called is on record before."""
    name = view.form.get("name", "")
    async with reading(view) as connection:
        type_ = await _found(connection, name)
    if isinstance(type_, Unusable):
        raise NotNow(str(type_))
    if type_.timeout > LONGEST_TEST:
        raise NotNow(f"a call of {name} may take {written(type_.timeout)}: test it by `perdure job-type test {name}`")
    try:
        trial = Trial.of(type_, _json(view, "params", dict) or {}, _json(view, "payload"))
    except NoCall as error:
        raise NotNow(f"{error} (as the console's process is set up)") from None
    except ValidationError as error:
        raise InvalidInput(first_problem(error)) from None
    await _record(view, name, "test", "")
    outcome = await trial.run(view.config)
    may_see = view.person.may(Role.PAYLOADS, LIFECYCLE, None)
    return await _page(view, name, trial=trial, outcome=outcome, may_see=may_see)


async def _page(view: View, name: str, **more: Any) -> Response:
    before = view.query.get("before", "")
    if before and not (before.isascii() and before.isdecimal() and len(before) < 19):
        raise InvalidSetting(f"{before[:40]!r} is no place in this list: begin at its first page")
    async with reading(view) as connection:
        found = await _found(connection, name)
        counts = (await catalogue.standing(connection, name)).get(name, {})
        changes = await connection.fetch(query("type_changes"), name, int(before) if before else None, ROWS + 1)
        jobs = await connection.fetch(query("jobs_of_type"), name, JOBS)
    return view.render(
        "web-jobs/job_type.html",
        name=name,
        type=found,
        unusable=found.why if isinstance(found, Unusable) else None,
        fields=[] if isinstance(found, Unusable) else [(each, _shown(each, getattr(found, each))) for each in FIELDS],
        counts=counts,
        jobs=jobs,
        changes=changes[:ROWS],
        before=changes[ROWS - 1]["seq"] if len(changes) > ROWS else None,
        may=view.person.may(Role.ADMINISTER, LIFECYCLE, None),
        too_long=isinstance(found, JobType) and found.timeout > LONGEST_TEST,
        given=view.form,
        **{"trial": None, "outcome": None, "may_see": False, **more},
    )


async def _found(connection: Connection, name: str) -> Found:
    found = await catalogue.find(connection, name)
    if found is None:
        raise NoSuchEntity(f"there is no job type {name[:80]!r}")
    return found


async def _record(view: View, name: str, verb: str, note: str) -> None:
    """Do it, or put the test on record, in the name of the person."""
    async with view.writing() as connection:
        there = await connection.fetchval(
            "select web_job.act_on_type($1, $2, $3, $4)", name, verb, view.person.name, note
        )
    if not there:
        raise NoSuchEntity(f"there is no job type {name[:80]!r}")
    log_event(log, "acted on a job type", verb=verb, type=name, by=view.person.name)


async def _release(view: View, name: str) -> str:
    pages = released = 0
    async for released in catalogue.release(view.writing, name):
        pages += 1
        if pages == LET_GO:
            return f"; {released:,} of its held jobs go on now, the others within ten minutes"
    return f"; {released:,} held jobs go on"


def _line(found: Found, standing: dict[str, dict[str, int]]) -> dict[str, Any]:
    counts, usable = standing.get(found.name, {}), isinstance(found, JobType)
    return {
        "name": found.name,
        "page": f"{found.method} {found.url}" if isinstance(found, JobType) else None,
        "doubt": _doubt(found) if isinstance(found, JobType) else "",
        "open": sum(counts.get(each, 0) for each in ("scheduled", "held", "processing")),
        "held": counts.get("held", 0),
        "failed": counts.get("failed", 0),
        "disabled": found.disabled if isinstance(found, JobType) else None,
        "unusable": None if usable else str(found),
    }


def _doubt(type_: JobType) -> str:
    return f"dedupe:{written(type_.remembers)}" if type_.doubt == "dedupe" and type_.remembers else type_.doubt


def _shown(field: str, value: Any) -> str:
    """A field as text; headers without what may be a secret."""
    if isinstance(value, timedelta):
        return written(value)
    if isinstance(value, dict):
        return "; ".join(f"{name}: {each}" for name, each in shown_headers(value).items())
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return {True: "yes", False: "no", None: ""}[value] if value is None or isinstance(value, bool) else str(value)


def _json(view: View, field: str, kind: type = object) -> Any:
    text = view.form.get(field, "").strip()
    if not text:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{field} is no JSON: {error}") from None
    if not isinstance(value, kind):
        raise InvalidInput(f'{field} is no object: write {{"row": 42}}')
    return value


PAGES = [
    Page("job-types", "/job-types", show, menu="Job types", records="a job type", lifecycle=LIFECYCLE),
    Page("job-types.one", "/job-types/one", one, lifecycle=LIFECYCLE),
    Page("job-types.act", "/job-types/act", act, Role.ADMINISTER, method="POST", lifecycle=LIFECYCLE),
    Page("job-types.test", "/job-types/test", test, Role.ADMINISTER, method="POST", lifecycle=LIFECYCLE),
]
