"""Acts: what one would do and for whom, then the act itself: for one entity at once, for many as a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.responses import Response

from perdure._operations.bulk import Name
from perdure._operations.consequences import follows, receipt_fields, takes_receipt
from perdure._operations.doubts import Doubt, DoubtSelection, by_entity
from perdure._operations.entity import Record, read_record
from perdure.console import chosen, offering
from perdure.console.chosen import group_of, place_of
from perdure.console.evidence import read_from
from perdure.console.many import act_on_one
from perdure.console.page import Page, View
from perdure.console.pages import acting_on_many
from perdure.console.roles import Role
from perdure.console.verbs import RESOLVE, Verb, check_fields, verb_named
from perdure.errors import NotNow


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

    @property
    def seen(self) -> dict[str, str]:
        """What an act must find as the preview showed it: nobody has decided about a later generation or attempt."""
        shown = {"generation": str(self.record.row["generation"])}
        return shown | ({"attempts": str(self.doubt.attempts)} if self.doubt else {})

    @property
    def following(self) -> dict[str, str]:
        """The place of the doubt in its group of the inbox, behind which the next one stands; empty without a doubt."""
        return {**group_of(self.doubt), "after": place_of(self.doubt)} if self.doubt else {}


async def ask(view: View) -> Response:
    """The preview: nothing is done."""
    verb = verb_named(view.request.path_params["verb"])
    given = chosen.given(verb.among, view.query)
    return await (_ask_one(view, verb, given) if "id" in given else acting_on_many.ask(view, verb, given))


async def act(view: View) -> Response:
    """Do it."""
    verb = verb_named(view.request.path_params["verb"])
    given = chosen.given(verb.among, view.form)
    check_fields(verb, view.form)
    return await (_act_on_one(view, verb, given) if "id" in given else acting_on_many.act(view, verb, given))


async def _ask_one(view: View, verb: Verb, given: Mapping[str, str]) -> Response:
    one = await _one(view, verb, given, Role.LOOK)
    answers, receipt, fields = {}, False, ""
    seen = await offering.seen(view, one.record)
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
        seen=one.doubt and read_from(seen, one.doubt, view.app),
        why_not=offering.reasons(view, seen).get(verb, "not in the state that it is in"),
        following=one.following,
        allowed=view.person.may(Role.SETTLE, row["lifecycle"], row["tenant"]),
    )


async def _act_on_one(view: View, verb: Verb, given: Mapping[str, str]) -> Response:
    one = await _one(view, verb, given, Role.SETTLE)
    entity = Name(given["lifecycle"], given["id"]).entity
    if any(view.form.get(name, value) != value for name, value in one.seen.items()):
        raise NotNow(f"{entity} was restarted or attempted again since the form was loaded: load it again")
    doubts = [(one.doubt.key, one.doubt.attempts)] if verb is RESOLVE and one.doubt else []
    answer = await act_on_one(view, verb, entity, doubts, asks_temporal=not (verb is RESOLVE and one.final))
    return view.redirect(
        f"/entity/{entity.lifecycle}",
        id=entity.id,
        notice=view.signed_notice(f"{verb.words}: {answer}"),
        undo=verb.undone_by,
        **{name: value for name, value in one.following.items() if name != "lifecycle"},
    )


async def _one(view: View, verb: Verb, given: Mapping[str, str], role: Role) -> One:
    lifecycle, entity_id = given["lifecycle"], given["id"]
    async with view.reading() as connection:
        record = await read_record(connection, lifecycle, entity_id)
        view.see(lifecycle, entity_id, record.row["tenant"])
        view.require(role, lifecycle, record.row["tenant"])
        doubts = []
        if verb is RESOLVE:
            name = Name(lifecycle, entity_id)
            doubts = (await by_entity(connection, DoubtSelection(), [name]))[name]
    wanted = given.get("key")
    meant = [each for each in doubts if wanted in (None, each.key)]
    return One(record, doubts, meant[0] if len(meant) == 1 else None)


PAGES = [
    Page("act", "/act/{verb}", ask),
    Page("act.send", "/act/{verb}", act, Role.SETTLE, method="POST"),
]
