"""Acts: what one would do and for whom, then the act itself: for one entity at once, for many as a job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from starlette.responses import Response

from perdure._operations.bulk import Name
from perdure._operations.consequences import follows, receipt_fields, takes_receipt
from perdure._operations.doubts import Doubt, DoubtSelection, by_entity
from perdure._operations.entity import Record, read_record
from perdure._operations.undone import undone
from perdure._store.schema import Connection
from perdure.client.records import EffectRecord
from perdure.console import chosen, offering
from perdure.console.chosen import group_of, place_of
from perdure.console.evidence import read_from
from perdure.console.many import act_on_one
from perdure.console.page import Page, View
from perdure.console.pages import acting_on_many
from perdure.console.roles import Role
from perdure.console.verbs import RESOLVE, InDoubt, Part, Verb, check_fields, verb_named
from perdure.errors import NotNow


@dataclass(frozen=True)
class One:
    """The entity that an act is for.

    Attributes:
        effects: those that the act may be about: its effects in doubt, or those that ended without being done.
        meant: the one that it is about; None = another act, or one of several is still to be chosen.
    """

    verb: Verb
    record: Record
    effects: Sequence[Doubt | EffectRecord] = ()
    meant: Doubt | EffectRecord | None = None

    @property
    def final(self) -> bool:
        """Whether it has ended."""
        return self.record.row["final"] is not None

    @property
    def doubt(self) -> Doubt | None:
        """The effect in doubt that is meant."""
        return self.meant if isinstance(self.meant, Doubt) else None

    @property
    def seen(self) -> dict[str, str]:
        """What an act must find as the preview showed it: nobody has decided about anything later."""
        shown = {"generation": str(self.record.row["generation"])}
        if self.meant:
            shown["key"] = self.meant.key
        if self.doubt:
            shown["attempts"] = str(self.doubt.attempts)
        if self.verb.name == "cancel":
            shown["in_state"] = self.record.row["state"]
        if self.verb.name == "retry":
            shown["waits_for"] = self._waits_for
        return shown

    @property
    def _waits_for(self) -> str:
        """A digest of what a retry goes on from. The number of attempts is not part of it: the next one of the same
        call makes no difference."""
        effects = [(each.key, each.status) for each in undone(offering.status_of(self.record).effects)]
        place = [self.record.row["state"], self.record.row["attention"], sorted(effects)]
        return sha256(json.dumps(place).encode()).hexdigest()[:32]

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
        raise NotNow(f"{entity} has gone on, was restarted or attempted again since the form was loaded: load it again")
    if one.meant is None and "key" in given:
        raise NotNow(f"{entity}: {given['key']} does not wait for that any more: somebody or something was faster")
    answer = await act_on_one(view, verb, entity, _part(one), asks_temporal=not (verb is RESOLVE and one.final))
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
        effects = await _effects(connection, verb, record)
    meant = [each for each in effects if given.get("key") in (None, each.key)]
    return One(verb, record, effects, meant[0] if len(meant) == 1 else None)


async def _effects(connection: Connection, verb: Verb, record: Record) -> Sequence[Doubt | EffectRecord]:
    if verb is RESOLVE:
        name = Name(record.row["lifecycle"], record.row["id"])
        return (await by_entity(connection, DoubtSelection(), [name]))[name]
    return undone(offering.status_of(record).effects) if verb.name == "send-again" else ()


def _part(one: One) -> Part:
    if one.doubt:
        return InDoubt(one.doubt.key, one.doubt.attempts, one.doubt.effect)
    return one.meant and one.meant.key


PAGES = [
    Page("act", "/act/{verb}", ask),
    Page("act.send", "/act/{verb}", act, Role.SETTLE, method="POST"),
]
