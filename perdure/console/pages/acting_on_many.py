"""An act for many: all that a filter chooses, or those of a group that somebody ticked or listed. First its preview."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from starlette.responses import Response

from perdure._operations.consequences import follows, receipt_fields, takes_receipt
from perdure._operations.reach import Reach
from perdure._store.schema import Connection
from perdure.console import chosen
from perdure.console.chosen import Chosen, Doubtful, doubtful_ones, in_words
from perdure.console.jobs import Job, new_id
from perdure.console.listed import Listed, read_list, ticked_and_pasted
from perdure.console.many import RATE, begin
from perdure.console.page import Page, View
from perdure.console.roles import Role
from perdure.console.verbs import RESOLVE, Among, Verb, chosen_outcome, previewed_at, resolving
from perdure.contracts.outcomes import EffectStatus
from perdure.errors import InvalidSetting


async def ask(view: View, verb: Verb, given: Mapping[str, str]) -> Response:
    """The preview for all that a filter chooses."""
    async with view.reading() as connection:
        return await _preview(view, connection, verb, given, chosen.chosen(verb.among, given, _reach(view), None))


async def ask_some(view: View) -> Response:
    """The preview for some of a group: those that are ticked, and those that a list names."""
    given = chosen.given(Among.DOUBTFUL, {**view.form, "id": ""})
    async with view.reading() as connection:
        group = doubtful_ones(given, _reach(view))
        listed = await read_list(connection, group, ticked_and_pasted(view.form), view.app)
        some = Doubtful(replace(group, keys=tuple(listed.found)))
        return await _preview(view, connection, RESOLVE, given, some, listed)


async def _preview(
    view: View,
    connection: Connection,
    verb: Verb,
    given: Mapping[str, str],
    meant: Chosen,
    listed: Listed | None = None,
) -> Response:
    effect, sample = given.get("effect", ""), await meant.sample(connection)
    return view.render(
        "act_on_many.html",
        verb=verb,
        given=given,
        listed=listed,
        total=await meant.count(connection),
        sample=sample,
        as_of=await connection.fetchval("select clock_timestamp()"),
        rate=RATE,
        answers=_answers(view, given, sample) if verb is RESOLVE else {},
        receipt=takes_receipt(view.app, effect),
        fields=receipt_fields(view.app, effect),
        allowed=view.person.may_somewhere(Role.BULK),
        words=in_words(given),
        rest=_rest(view, verb, given),
    )


def _answers(view: View, given: Mapping[str, str], sample: Sequence[Any]) -> dict[EffectStatus, str]:
    if not sample or not {"lifecycle", "effect"} <= given.keys():
        return {}
    states = {row.state for row in sample}
    state = next(iter(states)) if len(states) == 1 else "its state"
    return follows(view.app, given["lifecycle"], state, given["effect"], ended="ended" in given)


async def act(view: View, verb: Verb, given: Mapping[str, str]) -> Response:
    """Begin it; the page that follows shows how far it is."""
    if not view.person.may_somewhere(Role.BULK):
        view.require_everywhere(Role.BULK)
    words, total = in_words(given), _total(view)
    meant = chosen.chosen(verb.among, given, _reach(view), previewed_at(view.form))
    receipts: dict[str, Any] = {}
    if verb is RESOLVE and view.form.get("list"):
        meant, receipts = await _listed(view, given)
        words = f"{total:,} of those with {words}"
    _check_receipts(view.form, receipts)
    done = replace(verb, act=resolving(receipts)) if receipts else verb
    job = Job(new_id(), view.person.name, done, words, total, _rate(view.form), _rest(view, verb, given))
    asks_temporal = verb.asks_temporal and "ended" not in given
    return await begin(view, job, meant.following, asks_temporal=asks_temporal)


async def _listed(view: View, given: Mapping[str, str]) -> tuple[Chosen, dict[str, Any]]:
    group = doubtful_ones(given, _reach(view), previewed_at(view.form))
    async with view.reading() as connection:
        listed = await read_list(connection, group, view.form["list"], view.app)
    receipts = {key: json.loads(each) for key, each in listed.receipts.items()}
    return Doubtful(replace(group, keys=tuple(listed.found))), receipts


def _rest(view: View, verb: Verb, given: Mapping[str, str]) -> str:
    """Where those stand that are left."""
    if verb.among is Among.DOUBTFUL:
        return view.link("/inbox/doubts", **given)
    return view.link("/list", **given, finished="on" if verb.among is Among.FINISHED else "")


def _check_receipts(form: Mapping[str, str], own: Mapping[str, Any]) -> None:
    if form.get("receipt", "").strip() and form.get("same") != "on":
        raise InvalidSetting(
            "one receipt for many: confirm that it is right for each of them, or settle them one by one"
        )
    if own and (answer := chosen_outcome(form)) is not EffectStatus.DONE:
        raise InvalidSetting(f"the list gives receipts, and the answer is {answer}: list them without, or answer done")


def _reach(view: View) -> Reach:
    return view.reach(Role.BULK)


def _total(view: View) -> int:
    """What the preview counted; it is only shown beside how far the act is."""
    total = view.form.get("total", "0")
    if not total.isdecimal() or len(total) > 12:
        raise InvalidSetting(f"{total!r} is no count: load the form again")
    return int(total)


def _rate(form: Mapping[str, str]) -> float:
    try:
        rate = float(form.get("rate", RATE))
    except ValueError:
        rate = -1.0
    if not 0 < rate <= 1000:
        raise InvalidSetting(f"{form.get('rate')!r} is no rate: write a number of entities a second, up to 1000")
    return rate


PAGES = [Page("act.some", "/inbox/doubts/some", ask_some, Role.BULK, method="POST", acts=False)]
