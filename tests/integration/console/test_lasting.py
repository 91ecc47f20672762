"""An act without an answer is done once: it is repeated, and counts as done if it is on record when that is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from perdure._operations.acts import Acts
from perdure._operations.bulk import Choice, Name
from perdure.console.jobs import Job
from perdure.console.lasting import Lasting
from perdure.console.sources import Sources
from perdure.console.verbs import RESOLVE, VERBS, InDoubt, Verb
from perdure.contracts.keys import Entity
from perdure.contracts.outcomes import EffectStatus
from perdure.errors import AlreadyFinished, DatabaseUnavailable
from tests.apps.talking import app
from tests.world import World

pytestmark = pytest.mark.world(app)

A = Entity("ring", "a")
NOTE = "from their list"
ENDED_WITH_TWO_DOUBTS = """
    insert into perdure.ident (lifecycle, id, final) values ('ring', 'a', 'done');
    insert into perdure.finished (lifecycle, id, generation, state, input, created_at)
        values ('ring', 'a', 0, 'done', '{}', now());
    insert into perdure.effect
        (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline)
    select 'ring/a/do-ring/' || n, 'ring', 'a', 0, 'do-ring/' || n, 't' || n, 'in_doubt', '', now(), now(), now()
    from generate_series(1, 2) n
"""


@dataclass
class Lost:
    """Acts of a job of ann's whose first try has no answer.

    Attributes:
        since: when the job began.
        committed: whether the first try was committed.
    """

    lasting: Lasting
    since: datetime
    committed: bool = False

    async def act(self, verb: Verb, do: Callable[[], Awaitable[str]], part: Any = None) -> str:
        """Do it, so that the first answer is lost."""
        tries: list[str] = []

        async def lost() -> str:
            tries.append("once more")
            if len(tries) > 1:
                return await do()
            if self.committed:
                await do()
            raise DatabaseUnavailable("the connection was lost")

        fields = {"note": NOTE, "outcome": "abandoned"}
        return await self.lasting.act(lost, A, lambda why: verb.recorded(why, part, fields), self.since)


@asynccontextmanager
async def lost(world: World, *, committed: bool = False) -> AsyncIterator[Lost]:
    """See `Lost`."""
    sources = Sources(world.config, app)
    try:
        session = await sources.session("ann", NOTE, many=True)
        lasting = Lasting(await session.acts(asks_temporal=False), session.reading, asyncio.Event())
        yield Lost(lasting, await lasting.begin(), committed)
    finally:
        await sources.close()


async def test_another_act_of_the_same_person_is_not_taken_for_this_one(world: World) -> None:
    await world.db.execute("select perdure.start('ring', 'a', '{}')")
    async with lost(world) as anns:
        await anns.lasting.acts.note_look(A)  # in her other tab
        answer = await anns.act(VERBS["cancel"], lambda: anns.lasting.acts.cancel(A))
    assert answer == "its end is requested"
    assert await world.db.fetchval("select count(*) from perdure.message where kind = 'cancel'") == 1


async def test_what_was_done_is_on_record_and_what_somebody_else_did_is_refused(world: World) -> None:
    await world.db.execute(ENDED_WITH_TWO_DOUBTS)

    async with lost(world, committed=True) as anns:
        doubt = InDoubt("ring/a/do-ring/1", 1, "do-ring/1")
        assert await anns.act(RESOLVE, lambda: settle(anns.lasting.acts, doubt), doubt) == "on record"
    async with lost(world) as anns:
        other = InDoubt("ring/a/do-ring/2", 1, "do-ring/2")
        await world.db.execute("select perdure.resolve('ring', 'a', 'do-ring/2', 'abandoned', 'bob', 'too old')")
        await anns.lasting.acts.note_look(A)
        with pytest.raises(AlreadyFinished, match="too late: already done"):
            await anns.act(RESOLVE, lambda: settle(anns.lasting.acts, other), other)


async def settle(acts: Acts, doubt: InDoubt) -> str:
    """Give it up."""
    return await acts.resolve(A, EffectStatus.ABANDONED, None, doubt.key, doubt.attempt)


async def test_of_two_doubts_of_one_entity_each_is_settled_by_itself(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.db.execute(ENDED_WITH_TWO_DOUBTS)
    calls, real = [], Acts.resolve

    async def resolve(self: Acts, *given: Any) -> str:
        calls.append(given[3])
        if len(calls) == 2:
            raise DatabaseUnavailable("PostgreSQL did not answer")
        return await real(self, *given)

    monkeypatch.setattr(Acts, "resolve", resolve)
    pages = [[Choice(Name("ring", "a"), [InDoubt(f"ring/a/do-ring/{n}", 1, f"do-ring/{n}") for n in (1, 2)])], []]

    async def following(*_: object) -> list[Choice]:
        return pages.pop(0)

    async with lost(world) as anns:
        job = Job("id", "ann", RESOLVE, "all", 2, 50.0, "/")
        await job.run(anns.lasting, following, {"outcome": "abandoned", "note": NOTE})
    assert (job.tally.accepted, job.tally.refused, job.problem, [*job.refusals]) == (1, 0, None, [])
    assert calls == ["ring/a/do-ring/1", "ring/a/do-ring/2", "ring/a/do-ring/2"]
    assert await world.db.fetchval("select bool_and(status = 'abandoned') from perdure.effect")


async def test_a_restart_without_an_answer_is_done_once(world: World) -> None:
    await world.db.execute(ENDED_WITH_TWO_DOUBTS)
    await world.db.execute("delete from perdure.effect")
    async with lost(world, committed=True) as anns:
        assert await anns.act(VERBS["restart"], lambda: anns.lasting.acts.restart(A)) == "on record"
    assert await world.db.fetchval("select generation from perdure.ident") == 1
