"""Acts that a page of an application offers for entities that it chooses itself: for one at once, for many as a job."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.responses import Response

from perdure._operations.bulk import Name
from perdure.console.guarding import log
from perdure.console.jobs import Job, new_id
from perdure.console.page import View
from perdure.console.verbs import Verb
from perdure.contracts.keys import Entity
from perdure.logs import log_event

RATE = 50.0
"""Of so many entities a second the act begins at most."""


async def act_on_one(view: View, verb: Verb, entity: Entity) -> str:
    """Do it, in the name of the person, with the note of the form. Returns what came of it, in a few words.

    Check the person's role first: `view.require(Role.SETTLE, ...)`.
    """
    acts = await (await view.session(view.form.get("note", ""))).acts(asks_temporal=verb.asks_temporal)
    answer = await verb.act(acts, entity, [], view.form)
    view.sources.outdate()
    log_event(log, "acted", verb=verb.name, entity=str(entity), by=view.person.name)
    return answer


async def act_on_many(
    view: View, verb: Verb, entities: AsyncIterator[Entity], words: str, total: int, rest: str
) -> Response:
    """Begin it; the answer leads to the page that shows how far it is.

    Check the person's role first: `view.require(Role.BULK, ...)`.

    Args:
        words: for whom it is.
        total: how many the preview counted.
        rest: address of the page that shows those that are left.
    """
    acts = await (await view.session(view.form.get("note", ""), many=True)).acts(asks_temporal=verb.asks_temporal)

    async def names() -> AsyncIterator[Name]:
        async for each in entities:
            yield Name(each.lifecycle, each.id)

    job = Job(new_id(), view.person.name, verb, words, total, RATE, rest)
    view.console.jobs.begin(job, acts, names(), {}, view.form, view.sources.outdate)
    log_event(log, "acts on many", verb=verb.name, whom=words, total=total, by=view.person.name)
    return view.redirect(f"/jobs/{job.id}")
