"""Acts as a page does them: for one entity at once, for many as a job. Pages of applications use them, too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from starlette.responses import Response

from perdure._operations.acts import Acts
from perdure._operations.bulk import Choice, Name
from perdure._operations.selection import choices_of
from perdure._store.schema import Connection
from perdure.console.guarding import log
from perdure.console.jobs import Following, Job, new_id
from perdure.console.lasting import Lasting
from perdure.console.page import View
from perdure.console.verbs import Part, Verb
from perdure.contracts.keys import Entity
from perdure.logs import log_event

RATE = 50.0
"""Entities a second of which an act on many begins at most."""


async def act_on_one(view: View, verb: Verb, entity: Entity, part: Part = None, *, asks_temporal: bool = True) -> str:
    """Do it, in the name of the person, with the note of the form. Returns what came of it, in a few words.

    Check the person's role first: `view.require(Role.SETTLE, ...)`.

    Args:
        part: the part of it that is meant; None = all of it.
        asks_temporal: False = this time the act needs no workflow.
    """
    session = await view.session(view.form.get("note", ""))
    acts = await session.acts(asks_temporal=verb.asks_temporal and asks_temporal)
    return await carry_out(view, verb, acts, entity, part)


async def carry_out(view: View, verb: Verb, acts: Acts, entity: Entity, part: Part, name: str | None = None) -> str:
    """Do it for one entity: no page shows any more what it has outdated.

    Args:
        name: of the act in the log; None = that of the verb.
    """
    answer = await verb.act(acts, entity, part, view.form)
    view.sources.outdate()
    log_event(log, "acted", verb=name or verb.name, entity=str(entity), by=view.person.name)
    return answer


async def act_on_many(
    view: View,
    verb: Verb,
    following: Callable[[Connection, Entity | None], Awaitable[Sequence[Entity]]],
    words: str,
    total: int,
    rest: str,
) -> Response:
    """Begin it; the answer leads to the page that shows how far it is.

    Check the person's role first: `view.require(Role.BULK, ...)`.

    Args:
        following: reads the next entities behind one, some hundred at a time, or the first; none = that was the last.
        words: for whom it is.
        total: how many the preview counted.
        rest: address of the page that shows those that are left.
    """

    async def choices(connection: Connection, after: Name | None) -> list[Choice]:
        return await choices_of(connection, await following(connection, after.entity if after else None))

    job = Job(new_id(), view.person.name, verb, words, total, RATE, rest)
    return await begin(view, job, choices, asks_temporal=verb.asks_temporal)


async def begin(
    view: View,
    job: Job,
    following: Following,
    *,
    asks_temporal: bool,
    act: str | None = None,
) -> Response:
    """Begin a job, with the note of the form; the answer leads to its page.

    Args:
        act: its name in the log; None = that of the verb.
    """
    session = await view.session(view.form.get("note", ""), many=True)
    lasting = Lasting(await session.acts(asks_temporal=asks_temporal), session.reading, job.stop)
    view.console.jobs.begin(job, lasting, following, view.form, view.sources.outdate)
    log_event(log, "acts on many", verb=act or job.verb.name, whom=job.words, total=job.total, by=job.by)
    return view.redirect(f"/jobs/{job.id}")
