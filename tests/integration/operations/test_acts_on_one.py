"""An act on one entity prints what it did, and puts on record who asked for it and why."""

from __future__ import annotations

import asyncio

import pytest

from tests.acceptance.bookings import time_enough
from tests.apps.contracts import Booking
from tests.apps.talking import Rest, Ring, Slow, app
from tests.command import perdure
from tests.integration.operations.acts import LOST, delivered, parked, record, untouched
from tests.world import World

pytestmark = pytest.mark.world(app)

ANN = ("--by", "ann", "--note")
REFUSED = {"refused": "no such bell"}
NOWHERE = "127.0.0.1:1"
"""An address at which no Temporal answers."""


async def test_each_act_is_on_record_with_who_and_why(world: World) -> None:
    busy = {"not_done": "busy"}
    world.counterparty.replies_to = {"a": [LOST], "b": [busy], "c": [REFUSED], "d": [REFUSED], "e": [LOST]}
    async with world.worker(app):
        enough = await time_enough(world, "ring")
        for entity_id in ("a", "c", "d"):
            await world.client.start(Ring, entity_id, Booking())
        await world.client.start(Slow, "b", Booking())
        await world.client.start(Ring, "e", Booking(seconds=enough))
        await asyncio.gather(
            world.until(lambda: _waits_for_somebody(world), "c waits for somebody"),
            world.is_in("ring", "d", "failed"),
            world.until(lambda: _backs_off(world), "b backs off"),
            world.ended("ring", "e"),
        )
        await parked(world)
        ended = [
            await perdure(
                *(world, "resolve", "ring", "a", "--as", "done", "--receipt", "-", "--attempt", "1", *ANN, "it rang"),
                given='{"number": 7}',
            ),
            await perdure(world, "retry", "slow", "b", "--note", "they are back", PERDURE_BY="bob"),
            await perdure(world, "send-again", "ring", "c", "--effect", "do-ring", *ANN, "after all"),
            await perdure(world, "cancel", "ring", "d", *ANN, "not wanted", TEMPORAL_ADDRESS=NOWHERE),
            await perdure(
                *(world, "resolve", "ring", "e", "--as", "abandoned", "--attempt", "1", *ANN, "too old"),
                TEMPORAL_ADDRESS=NOWHERE,
            ),
        ]
        assert [(end.exit_code, end.stdout, end.stderr) for end in ended] == [
            (0, "ring/a: resolved as done\n", ""),
            (0, "slow/b: goes on from doing\n", ""),
            (0, "ring/c: do-ring goes anew\n", ""),
            (0, "ring/d: its end is requested\n", ""),
            (0, "ring/e: resolved as abandoned; it had ended as expired\n", ""),
        ]
        assert [await world.ended(*who) for who in (("ring", "a"), ("slow", "b"), ("ring", "c"), ("ring", "d"))] == [
            *("done", "done", "done", "cancelled")
        ]
        end = await perdure(world, "restart", "ring", "a", *ANN, "once more")
        assert (end.exit_code, end.stdout) == (0, "ring/a: runs again, as generation 1\n")
        assert await world.ended("ring", "a") == "done"
        end = await perdure(world, "restart", "ring", "a", *ANN, "once more", "--generation", "0")
        assert (end.exit_code, end.stdout) == (1, "")
        assert "ring/a was restarted meanwhile: generation 1 has ended, not 0" in end.stderr
    assert await record(world, "ring", "a") == [
        ("doing", "ann", "do-ring resolved as done: it rang"),
        ("starting", "ann", "once more"),
    ]
    assert [said[1:] for said in await record(world, "slow", "b")] == [("bob", "retry: they are back")]
    assert [said[1:] for said in await record(world, "ring", "c")] == [("ann", "send-again: after all")]
    assert [said[1:] for said in await record(world, "ring", "d")] == [
        ("ann", "cancel requested: not wanted"),
        ("ann", "not wanted"),
    ]
    assert await record(world, "ring", "e") == [("expired", "ann", "do-ring resolved as abandoned: too old")]


async def test_an_open_entity_whose_workflow_was_terminated_is_retried_from_its_record(world: World) -> None:
    world.counterparty.replies = [dict(REFUSED)]
    async with world.worker(app):
        await world.client.start(Ring, "a", Booking())
        await world.is_in("ring", "a", "failed")
        await delivered(world)
        await world.handle("ring", "a").terminate()
        before = await untouched(world)
        end = await perdure(world, "send-again", "ring", "a", *ANN, "now")
        assert end.exit_code == 1
        assert end.stderr == (
            "perdure: ring/a: no workflow of it is open in Temporal: `perdure retry ring a` starts it again from its "
            "record, `perdure recover` all of them [PERDURE-2104]\n"
        )
        assert await untouched(world) == before
        end = await perdure(world, "retry", "ring", "a", *ANN, "I ended it by mistake")
        assert (end.exit_code, end.stdout) == (
            0,
            "ring/a: its workflow was terminated: started again from its record\n",
        )
        await world.until(lambda: _accepted(world, "retry", "ring", "a", *ANN, "now"), "it waits again")
        assert await world.ended("ring", "a") == "done"
    again = "retry, started again from its record, since its workflow was terminated: I ended it by mistake"
    assert [said[1:] for said in await record(world, "ring", "a")] == [("ann", again), ("ann", "retry: now")]
    assert world.counterparty.accepted == {"ring/a/do-ring~1": 1}


async def test_an_entity_without_a_workflow_is_retried_from_its_record(world: World) -> None:
    await world.client.start(Rest, "a", Booking())
    await world.db.execute("delete from perdure.outbox")
    end = await perdure(world, "retry", "rest", "a", *ANN, "lost")
    assert (end.exit_code, end.stdout) == (0, "rest/a: its workflow is gone: started again from its record\n")
    end = await perdure(world, "retry", "rest", "a", *ANN, "lost")
    assert (end.exit_code, end.stderr) == (
        1,
        "perdure: rest/a waits to be delivered to Temporal: try again in a moment [PERDURE-2103]\n",
    )
    assert len(await record(world, "rest", "a")) == 1
    async with world.worker(app):
        assert await world.ended("rest", "a") == "done"


async def test_an_answer_that_does_not_come_is_not_waited_for_and_what_was_asked_happens_once(world: World) -> None:
    world.counterparty.replies = [dict(LOST)]
    async with world.worker(app):
        await world.client.start(Ring, "a", Booking())
        await parked(world)
        await delivered(world)
    resolving = ("resolve", "ring", "a", "--as", "done", "--receipt", "-", *ANN, "it rang")
    end = await perdure(world, *resolving, "--timeout", "0.5", given='{"number": 7}')
    assert (end.exit_code, end.stdout) == (1, "")
    assert end.stderr == (
        "perdure: ring/a: no worker answered within 0.5 s, so it is not known whether that was accepted: check that "
        "one is running, and try again [PERDURE-3201]\n"
    )
    async with world.worker(app):
        end = await perdure(world, *resolving, given='{"number": 7}')
        assert end.exit_code == 0 or "too late: already done" in end.stderr or "right now" in end.stderr, end.stderr
        assert await world.ended("ring", "a") == "done"
    assert await record(world, "ring", "a") == [("doing", "ann", "do-ring resolved as done: it rang")]


async def _backs_off(world: World) -> bool:
    return any(each.next_at and each.attempts for each in (await world.asked("slow", "b")).effects)


async def _waits_for_somebody(world: World) -> bool:
    return (await world.asked("ring", "c")).waits_for_retry


async def _accepted(world: World, *arguments: str) -> bool:
    return (await perdure(world, *arguments)).exit_code == 0


EARLIER = """
    insert into perdure.effect
        (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline)
    select key, 'rest', 'a', generation, 'do-ring', 't', 'in_doubt', '', now(), now(), now()
    from (values ('rest/a/do-ring', 0), ('rest/a/1/do-ring', 1)) k (key, generation)
"""


async def test_a_doubt_of_an_earlier_generation_is_resolved_once_the_entity_has_ended(world: World) -> None:
    """An outcome that arrives after a restore leaves such a doubt, and neither a restart nor an erasure is possible."""
    async with world.worker(app):
        await world.client.start(Rest, "a", Booking())
        assert await world.ended("rest", "a") == "done"
        await perdure(world, "restart", "rest", "a", *ANN, "once more")
        assert await world.ended("rest", "a") == "done"
    await world.db.execute(EARLIER)
    refused = await perdure(world, "restart", "rest", "a", *ANN, "once more")
    assert (refused.exit_code, "whether 'rest/a/do-ring' happened is not known" in refused.stderr) == (1, True)
    unclear = await perdure(world, "resolve", "rest", "a", "--as", "not_done", "--effect", "do-ring", *ANN, "x")
    assert (unclear.exit_code, "name one of rest/a/1/do-ring, rest/a/do-ring" in unclear.stderr) == (1, True), unclear
    for key in ("rest/a/do-ring", "rest/a/1/do-ring"):
        end = await perdure(world, "resolve", "rest", "a", "--as", "not_done", "--effect", key, *ANN, "it was not")
        assert (end.exit_code, end.stdout) == (0, "rest/a: resolved as not_done; it had ended as done\n"), end.stderr
    end = await perdure(world, "restart", "rest", "a", *ANN, "once more")
    assert (end.exit_code, end.stdout) == (0, "rest/a: runs again, as generation 2\n")
