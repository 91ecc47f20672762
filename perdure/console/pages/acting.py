"""Acts: what one would do and for whom, then the act itself: for one entity at once, for many as a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from starlette.responses import Response

from perdure._operations.bulk import Name
from perdure._operations.consequences import follows, receipt_fields, takes_receipt
from perdure._operations.doubts import Doubt, DoubtSelection, keys_in_doubt
from perdure._operations.entity import Record, read_record
from perdure._operations.finished import FinishedSelection
from perdure._operations.selection import Selection
from perdure.console.chosen import (
    DOUBT_FILTERS,
    FINISHED_FILTERS,
    OPEN_FILTERS,
    Chosen,
    Doubtful,
    Finished,
    Open,
    doubtful_ones,
    finished_ones,
    open_ones,
)
from perdure.console.guarding import log
from perdure.console.jobs import Job, new_id
from perdure.console.page import Page, View
from perdure.console.roles import Role
from perdure.console.verbs import RESOLVE, VERBS, Among, Verb, chosen_outcome, given_json
from perdure.errors import InvalidSetting, NoSuchEntity
from perdure.logs import says

RATE = 50.0
"""Of so many entities a second the act begins at most, where nobody says otherwise."""
_FILTERS = {Among.OPEN: OPEN_FILTERS, Among.FINISHED: FINISHED_FILTERS, Among.DOUBTFUL: (*DOUBT_FILTERS, "unexplained")}


@dataclass(frozen=True)
class One:
    """The entity that an act is for.

    Attributes:
        doubts: its effects in doubt.
        doubt: the one that is meant.
    """

    record: Record
    doubts: list[Doubt]
    doubt: Doubt | None

    @property
    def final(self) -> bool:
        """Whether it has ended."""
        return self.record.row["final"] is not None


async def ask(view: View) -> Response:
    """The preview: nothing is done."""
    verb, given = _verb(view), _given(view, view.query)
    if "id" in given:
        return await _ask_one(view, verb, given)
    chosen = _chosen(view, verb, given, None)
    async with view.reading() as connection:
        total = await chosen.count(connection)
        sample = await chosen.sample(connection)
        as_of = await connection.fetchval("select clock_timestamp()")
    answers = {}
    if verb is RESOLVE and sample and {"lifecycle", "effect"} <= given.keys():
        states = {row.state for row in sample}
        state = next(iter(states)) if len(states) == 1 else "its state"
        answers = follows(view.app, given["lifecycle"], state, given["effect"], ended="ended" in given)
    return view.render(
        "act_on_many.html",
        verb=verb,
        given=given,
        total=total,
        sample=sample,
        as_of=as_of,
        rate=RATE,
        answers=answers,
        receipt=takes_receipt(view.app, given.get("effect", "")),
        fields=receipt_fields(view.app, given.get("effect", "")),
        allowed=view.person.may_somewhere(Role.BULK),
        words=_words(given),
    )


async def _ask_one(view: View, verb: Verb, given: Mapping[str, str]) -> Response:
    one = await _one(view, verb, given, Role.LOOK)
    answers, receipt, fields = {}, False, ""
    if one.doubt is not None:
        doubt, state = one.doubt, one.record.row["state"]
        answers = follows(view.app, doubt.lifecycle, state, doubt.effect, ended=doubt.ended, attempts=doubt.attempts)
        receipt, fields = takes_receipt(view.app, doubt.effect), receipt_fields(view.app, doubt.effect)
    row = one.record.row
    return view.render(
        "act_on_one.html",
        verb=verb,
        given=given,
        one=one,
        answers=answers,
        receipt=receipt,
        fields=fields,
        allowed=view.person.may(Role.SETTLE, row["lifecycle"], row["tenant"]),
    )


async def act(view: View) -> Response:
    """Do it."""
    verb, given = _verb(view), _given(view, view.form)
    _check(verb, view.form)
    if "id" in given:
        return await _act_on_one(view, verb, given)
    if view.form.get("receipt", "").strip() and view.form.get("same") != "on":
        raise InvalidSetting(
            "one receipt for many: confirm that it is right for each of them, or settle them one by one"
        )
    return await _act_on_many(view, verb, given)


async def _act_on_one(view: View, verb: Verb, given: Mapping[str, str]) -> Response:
    one = await _one(view, verb, given, Role.SETTLE)
    session = await view.session(view.form.get("note", ""))
    acts = await session.acts(asks_temporal=verb.asks_temporal and not (verb is RESOLVE and one.final))
    entity = Name(given["lifecycle"], given["id"]).entity
    answer = await verb.act(acts, entity, [one.doubt.key] if verb is RESOLVE and one.doubt else [], view.form)
    view.sources.outdate()
    says(log, "acted", verb=verb.name, entity=str(entity), by=view.person.name)
    return view.redirect(
        f"/entity/{entity.lifecycle}", id=entity.id, notice=view.console.forms.notice(f"{verb.words}: {answer}")
    )


async def _act_on_many(view: View, verb: Verb, given: Mapping[str, str]) -> Response:
    if not view.person.may_somewhere(Role.BULK):
        view.require_everywhere(Role.BULK)
    chosen, total = _chosen(view, verb, given, _as_of(view.form)), _total(view.form)
    session = await view.session(view.form.get("note", ""))
    acts = await session.acts(asks_temporal=verb.asks_temporal and "ended" not in given)
    keys: dict[Name, list[str]] = {}
    job = Job(new_id(), view.person.name, verb, _words(given), total, _rate(view.form))
    view.console.jobs.begin(job, acts, chosen.names(view.reading, keys), keys, view.form, view.sources.outdate)
    says(log, "acts on many", verb=verb.name, whom=job.words, total=total, by=view.person.name)
    return view.redirect(f"/jobs/{job.id}")


async def job(view: View) -> Response:
    """How far an act on many has come."""
    return view.render("job.html", job=_job(view))


async def jobs(view: View) -> Response:
    """The acts on many that this process remembers."""
    return view.render("jobs.html", jobs=view.console.jobs.all_of(view.person))


async def stop(view: View) -> Response:
    """Those under way are the last."""
    found = _job(view)
    found.stop.set()
    return view.redirect(f"/jobs/{found.id}")


def _job(view: View) -> Job:
    found = view.console.jobs.of(view.person, view.request.path_params["job"])
    if found is None:
        raise NoSuchEntity(
            "no such act on many is remembered: it was long ago, the console was started again, or it is another "
            "person's; what it did is in the history of each entity"
        )
    return found


def _verb(view: View) -> Verb:
    name = view.request.path_params["verb"]
    if name not in VERBS:
        raise InvalidSetting(f"no act is named {name!r}; there are: {', '.join(VERBS)}")
    return VERBS[name]


def _given(view: View, fields: Mapping[str, str]) -> dict[str, str]:
    """Whom it is for, without the rest of a form.

    Raises:
        InvalidSetting: it is neither one entity nor a filter.
    """
    one = {"lifecycle", "id", "key"}
    wanted = one if fields.get("id") else set(_FILTERS[_verb(view).among])
    given = {name: value for name, value in fields.items() if name in wanted and value}
    if ("id" in given and "lifecycle" not in given) or not given:
        raise InvalidSetting("that names neither one entity nor a filter: begin at the inbox or the list")
    return given


def _chosen(view: View, verb: Verb, given: Mapping[str, str], until: datetime | None) -> Chosen:
    reach = view.reach(Role.BULK)
    if verb.among is Among.FINISHED:
        finished: FinishedSelection = finished_ones(given, reach, until)
        return Finished(finished)
    if verb.among is Among.DOUBTFUL:
        doubtful: DoubtSelection = doubtful_ones(given, reach, until)
        return Doubtful(doubtful)
    opened: Selection = open_ones(given, reach, until)
    return Open(opened)


async def _one(view: View, verb: Verb, given: Mapping[str, str], role: Role) -> One:
    lifecycle, entity_id = given["lifecycle"], given["id"]
    async with view.reading() as connection:
        record = await read_record(connection, lifecycle, entity_id)
        view.see(lifecycle, entity_id, record.row["tenant"])
        view.require(role, lifecycle, record.row["tenant"])
        doubts = []
        if verb is RESOLVE:
            doubts = await keys_in_doubt(connection, DoubtSelection(), [Name(lifecycle, entity_id)])
    wanted = given.get("key")
    meant = [each for each in doubts if wanted in (None, each.key)]
    return One(record, doubts, meant[0] if len(meant) == 1 else None)


def _check(verb: Verb, form: Mapping[str, str]) -> None:
    """Raises `InvalidSetting` where something is missing, before anything is done."""
    if verb.needs_note and not form.get("note", "").strip():
        raise InvalidSetting("the note is missing: say how you know, for the record")
    if len(form.get("note", "")) > 2000:
        raise InvalidSetting("the note has more than 2,000 characters")
    given_json(form, "receipt")
    given_json(form, "input")
    if verb is RESOLVE:
        chosen_outcome(form)


def _total(form: Mapping[str, str]) -> int:
    """What the preview counted; it is only shown beside how far the act is."""
    total = form.get("total", "0")
    if not total.isdecimal() or len(total) > 12:
        raise InvalidSetting(f"{total!r} is no count: load the form again")
    return int(total)


def _as_of(form: Mapping[str, str]) -> datetime:
    try:
        return datetime.fromisoformat(form.get("as_of", "")).astimezone()
    except (ValueError, OverflowError):
        raise InvalidSetting("the form does not say when its preview was made: load it again") from None


def _rate(form: Mapping[str, str]) -> float:
    try:
        rate = float(form.get("rate", RATE))
    except ValueError:
        rate = -1.0
    if not 0 < rate <= 1000:
        raise InvalidSetting(f"{form.get('rate')!r} is no rate: write a number of entities a second, up to 1000")
    return rate


def _words(given: Mapping[str, str]) -> str:
    """Whom it is for, in a few words."""
    names = {"why": "reason", "older_than": "older than", "in_doubt": "in doubt", "unexplained": "without a reason"}
    return ", ".join(
        names.get(name, name) if value == "on" else f"{names.get(name, name)} {value}" for name, value in given.items()
    )


PAGES = [
    Page("act", "/act/{verb}", ask),
    Page("act.send", "/act/{verb}", act, Role.SETTLE, method="POST"),
    Page("jobs", "/jobs", jobs, Role.BULK),
    Page("jobs.one", "/jobs/{job}", job, Role.BULK),
    Page("jobs.stop", "/jobs/{job}/stop", stop, Role.BULK, method="POST"),
]
