"""Rejected: what could not be delivered, with the reason; to deliver it again or give it up, one or all that match."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from starlette.responses import Response

from perdure._operations.acts import Acts
from perdure._operations.bulk import Choice, Name
from perdure._operations.rejected import (
    Rejected,
    RejectedSelection,
    count_rejected,
    drop_rejected,
    rejected_by_entity,
    retry_rejected,
    select_rejected,
    starts_last,
)
from perdure._store.schema import Connection
from perdure.console.jobs import Job, new_id
from perdure.console.many import RATE, begin, carry_out
from perdure.console.page import Page, View
from perdure.console.roles import Role
from perdure.console.verbs import Among, Fields, Verb, check_note, previewed_at
from perdure.contracts.keys import Entity
from perdure.errors import InvalidSetting, NoSuchEntity

ROWS = 50
"""On one page."""
_PAGE = 500


async def _retry(acts: Acts, entity: Entity, seq: int, fields: Fields) -> str:
    return f"{await retry_rejected(acts.pool, seq, acts.asked)} delivered again"


async def _drop(acts: Acts, entity: Entity, seq: int, fields: Fields) -> str:
    return f"{await drop_rejected(acts.pool, seq, acts.asked)} dropped"


def _was_retried(why: str, seq: int, fields: Fields) -> bool:
    return why.startswith("rejected ") and f" {seq}, delivered again: " in why


def _was_dropped(why: str, seq: int, fields: Fields) -> bool:
    return why.startswith("rejected ") and f" {seq}, dropped: " in why


VERBS = {
    each.name: each
    for each in (
        Verb(
            "retry",
            "Deliver again",
            "delivered again",
            "Deliver it again: a start, or a message as the last of its entity's. First mend what it was rejected for.",
            "What is rejected once more stands here again.",
            Among.OPEN,
            _retry,
            _was_retried,
            asks_temporal=False,
        ),
        Verb(
            "drop",
            "Drop",
            "dropped",
            "Give it up: a first start as if it had never been, a restart so that the entity is finished again, or a "
            "message.",
            "There is no undo: what is dropped is gone.",
            Among.OPEN,
            _drop,
            _was_dropped,
            needs_note=True,
            asks_temporal=False,
        ),
    )
}


async def show(view: View) -> Response:
    """One page, the oldest first."""
    wanted, after = _wanted(view.query, view, Role.LOOK), _number(view.query, "after")
    async with view.reading() as connection:
        rows = await select_rejected(connection, wanted, ROWS + 1, after)
        total, entities = await count_rejected(connection, wanted)
    same = _given(view.query)
    more = rows[ROWS - 1].seq if len(rows) > ROWS else None
    return view.render("rejected.html", rows=rows[:ROWS], total=total, entities=entities, same=same, after=more)


async def ask(view: View) -> Response:
    """The preview of an act: nothing is done."""
    verb, given = _verb(view), _given(view.query)
    one = "seq" in given
    if not given:
        raise InvalidSetting("that names neither one nor a filter: begin at the page of what was rejected")
    wanted = _wanted(given, view, Role.LOOK if one else Role.BULK)
    async with view.reading() as connection:
        sample = await select_rejected(connection, wanted, 20)
        total, entities = await count_rejected(connection, wanted)
        as_of = await connection.fetchval("select clock_timestamp()")
    if one and not sample:
        raise _gone(given)
    may = view.person.may(Role.SETTLE, sample[0].lifecycle, sample[0].tenant) if one else None
    return view.render(
        "rejected_act.html",
        verb=verb,
        given=given,
        one=one,
        sample=sample,
        total=total,
        entities=entities,
        as_of=as_of,
        why_not=(sample[0].not_again if verb.name == "retry" else sample[0].not_dropped) if one else None,
        allowed=view.person.may_somewhere(Role.BULK) if may is None else may,
    )


async def act(view: View) -> Response:
    """Do it."""
    verb, given = _verb(view), _given(view.form)
    check_note(view.form, "why" if verb.needs_note else None)
    return await (_act_on_one if "seq" in given else _act_on_many)(view, verb, given)


async def _act_on_one(view: View, verb: Verb, given: Mapping[str, str]) -> Response:
    session = await view.session(view.form.get("note", ""))
    async with view.reading() as connection:
        found = await select_rejected(connection, _wanted(given, view, Role.LOOK), 1)
    if not found:
        raise _gone(given)
    row: Rejected = found[0]
    view.require(Role.SETTLE, row.lifecycle, row.tenant)
    entity = Entity(row.lifecycle, row.id)
    acts = await session.acts(asks_temporal=False)
    answer = await carry_out(view, verb, acts, entity, row.seq, f"rejected {verb.name}")
    return view.redirect("/rejected", notice=view.signed_notice(f"{entity}: {answer}"))


async def _act_on_many(view: View, verb: Verb, given: Mapping[str, str]) -> Response:
    if not view.person.may_somewhere(Role.BULK):
        view.require_everywhere(Role.BULK)
    if not given:
        raise InvalidSetting("that names neither one nor a filter: begin at the page of what was rejected")
    wanted = _wanted({**given, "as_of": view.form.get("as_of", "")}, view, Role.BULK)
    words = ", ".join(("rejected", *(f"{name} {value}" for name, value in given.items())))
    async with view.reading() as connection:
        _, entities = await count_rejected(connection, wanted)
    job = Job(new_id(), view.person.name, verb, words, entities, RATE, view.link("/rejected", **given))
    following = partial(_following, wanted, verb.name)
    return await begin(view, job, following, asks_temporal=False, act=f"rejected {verb.name}")


async def _following(wanted: RejectedSelection, verb: str, connection: Connection, after: Name | None) -> list[Choice]:
    """The next entities, with the numbers of what was rejected of each, in the order of the act."""
    found = await rejected_by_entity(connection, wanted, after or ("", ""), _PAGE)
    if verb != "drop":
        return [Choice(Name(lifecycle, entity_id), seqs) for lifecycle, entity_id, seqs in found]
    ordered = await starts_last(connection, [seq for *_, seqs in found for seq in seqs])
    place = {seq: number for number, seq in enumerate(ordered)}
    return [
        Choice(Name(lifecycle, entity_id), sorted(seqs, key=place.__getitem__)) for lifecycle, entity_id, seqs in found
    ]


def _verb(view: View) -> Verb:
    name = view.request.path_params["verb"]
    if name not in VERBS:
        raise InvalidSetting(f"no act is named {name!r}; there are: {', '.join(VERBS)}")
    return VERBS[name]


def _given(fields: Mapping[str, str]) -> dict[str, str]:
    return {name: fields[name] for name in ("seq", "lifecycle", "reason") if fields.get(name)}


def _wanted(fields: Mapping[str, str], view: View, role: Role) -> RejectedSelection:
    until = previewed_at(fields) if "as_of" in fields else None
    return RejectedSelection(
        fields.get("lifecycle"), fields.get("reason"), _number(fields, "seq"), until, view.reach(role)
    )


def _number(fields: Mapping[str, str], name: str) -> int | None:
    given = fields.get(name)
    if given is None:
        return None
    if not given.isascii() or not given.isdecimal() or len(given) > 18:
        raise InvalidSetting(f"{name}: {given[:40]!r} is no number of something that was rejected")
    return int(given)


def _gone(given: Mapping[str, str]) -> NoSuchEntity:
    return NoSuchEntity(
        f"nothing that was rejected has the number {given['seq']}: somebody or something was faster; "
        "the history of its entity shows who"
    )


PAGES = [
    Page("rejected", "/rejected", show, menu="Rejected"),
    Page("rejected.ask", "/rejected/{verb}", ask),
    Page("rejected.act", "/rejected/{verb}", act, Role.SETTLE, method="POST"),
]
