"""An act without an answer is done once: it is repeated, and counts as done if it is on record when that is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

from perdure._operations.acts import Acts
from perdure._operations.bulk import Choice, Name
from perdure.client.asking import Asking
from perdure.console.jobs import Job
from perdure.console.lasting import Lasting
from perdure.console.sources import Sources
from perdure.console.verbs import RESOLVE, VERBS, InDoubt, Verb
from perdure.contracts.keys import Entity
from perdure.contracts.outcomes import EffectStatus
from perdure.errors import AlreadyFinished, DatabaseUnavailable, TemporalUnavailable
from tests.apps.contracts import Booking
from tests.apps.talking import Ring, Slow, app
from tests.deadline import in_time, until
from tests.integration.console.browsing import open_console, readable
from tests.integration.operations.acts import record
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

SENT_AGAIN = """
    select count(*) = 2 and bool_and(f.status in ('done', 'refused')) and count(e.id) = count(e.attention)
    from perdure.effect f left join perdure.entity e using (lifecycle, id)
"""
PAUSES = "select attempts = $1 and status = 'not_done' from perdure.effect"


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


@pytest.mark.parametrize("refusals", [1, 3], ids=["it is done then", "it is refused again"])
async def test_what_is_sent_again_without_an_answer_is_sent_once_and_is_on_record(
    world: World, monkeypatch: pytest.MonkeyPatch, refusals: int
) -> None:
    """The network of the console is cut for a moment, while Temporal and the workers go on."""
    world.counterparty.replies_to = {"a": [{"refused": "no such bell"}] * refusals}
    executed, told, cut = Asking._executed, Asking._refusal, iter([True])

    async def loses(*given: Any) -> str:
        answer = await executed(*given)
        if next(cut, False):
            raise RPCError("connection reset", RPCStatusCode.UNAVAILABLE, b"")
        return answer

    async def unread(self: Asking, error: Exception) -> Exception:
        if not (isinstance(error, RPCError) and error.status is RPCStatusCode.UNAVAILABLE):
            return await told(self, error)
        await world.until(lambda: world.db.fetchval(SENT_AGAIN), "the workers have gone on meanwhile")
        raise DatabaseUnavailable("PostgreSQL did not answer")

    monkeypatch.setattr(Asking, "_executed", loses)
    monkeypatch.setattr(Asking, "_refusal", unread)
    async with world.worker(app), open_console(world, app=app) as site:
        await world.client.start(Ring, "a", Booking())
        await world.is_in("ring", "a", "failed")
        ann = site.browser("ann", "bulk")
        begun = await ann.send("/act/send-again?lifecycle=ring&attention=on", "/act/send-again", note="they are back")

        async def ended() -> str:
            text = readable(await ann.get(begun.url.path))
            return text if "Ended" in text else ""

        assert "1 go anew , 0 refused, of 1" in await until(ended, "ended")
        assert world.counterparty.seen("do") == 2
        assert [(by, why) for _, by, why in await record(world, "ring", "a")] == [("ann", "send-again: they are back")]


async def test_a_request_with_the_id_of_an_earlier_one_gets_its_answer(world: World) -> None:
    world.counterparty.replies_to = {"a": [{"not_done": "busy"}] * 3}
    async with world.worker(app):
        await world.client.start(Slow, "a", Booking())
        await world.until(lambda: world.db.fetchval(PAUSES, 1), "it pauses")
        assert await world.client.earlier_answer(Slow, "a", "one") is None
        first = await world.client.retry(Slow, "a", by="ann", update_id="one")
        await world.until(lambda: world.db.fetchval(PAUSES, 2), "it pauses again")
        assert await world.client.retry(Slow, "a", by="ann", update_id="one") == first
        assert await world.client.earlier_answer(Slow, "a", "one") == first
        assert await world.client.retry(Slow, "a", by="ann", update_id="another") == first
        await world.until(lambda: world.db.fetchval(PAUSES, 3), "only another request goes on")


async def test_a_request_without_an_answer_is_made_again_if_the_database_was_away_meanwhile(world: World) -> None:
    """It is back when the time of the request is over."""
    tries = iter([True])
    async with lost(world) as anns:

        async def unanswered_at_first() -> str:
            if not next(tries, False):
                return "settled"
            await asyncio.to_thread(world.postgres.stop)
            try:
                another = asyncio.create_task(anns.lasting.begin())
                await until(lambda: anns.lasting.away, "another act of the job waits")
            finally:
                await world.servers_are_back()
            await in_time(another)
            raise TemporalUnavailable("no worker answered within 20 s")

        assert await anns.lasting.act(unanswered_at_first, A, lambda why: False, anns.since) == "settled"


async def test_a_restart_without_an_answer_is_done_once(world: World) -> None:
    await world.db.execute(ENDED_WITH_TWO_DOUBTS)
    await world.db.execute("delete from perdure.effect")
    async with lost(world, committed=True) as anns:
        assert await anns.act(VERBS["restart"], lambda: anns.lasting.acts.restart(A)) == "on record"
    assert await world.db.fetchval("select generation from perdure.ident") == 1
