"""`restart`: a finished entity runs again as a new generation with new keys, and only when nothing is in doubt."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from perdure.contracts import EffectStatus
from perdure.errors import InvalidInput, NoSuchEntity, NotNow
from tests.acceptance.bookings import time_enough
from tests.apps.bodies import app
from tests.apps.bookings import Count, Counter, Escalate, LookupBooking
from tests.apps.contracts import Booking
from tests.deadline import DEADLINE
from tests.integration.store.stores import a_move, store_at, written
from tests.world import World


async def test_a_restart_is_a_new_round_with_new_keys_and_the_same_input(world: World) -> None:
    async with world.worker(app):
        await world.client.start(LookupBooking, "a", Booking(what="this"), tenant="t1")
        await world.ended("lookup", "a")
        assert await world.client.restart(LookupBooking, "a", by="ann", note="once more") == 1
        assert (await world.client.status(LookupBooking, "a")).generation == 1
        assert await world.ended("lookup", "a") == "done"
    assert world.counterparty.accepted == {"lookup/a/do-lookup": 1, "lookup/a~1/do-lookup": 1}
    inputs = await world.db.fetch("select input, tenant, generation from perdure.finished order by generation")
    assert inputs[0]["input"] == inputs[1]["input"]
    assert [row["tenant"] for row in inputs] == ["t1", "t1"]
    assert await world.states("lookup", "a") == ["starting", "doing", "done"] * 2
    by = await world.db.fetchrow("select made_by, why from perdure.transition where generation = 1 order by at")
    assert by is not None
    assert tuple(by) == ("ann", "once more")


async def test_a_restart_right_after_the_end_waits_until_the_last_run_is_closed(world: World) -> None:
    async with world.worker(app):
        await world.client.start(Counter, "a", Count())
        await world.until(lambda: _delivered(world), "delivered")
        counter = world.handle("counter", "a")
        waiting = asyncio.create_task(counter.execute_update("stay"))  # keeps the run open beyond its final state
        await world.until(lambda: world.query("counter", "a", "staying"), "the update under way")
        await counter.signal("tell", "close")
        await world.ended("counter", "a")
        await world.client.restart(Counter, "a", by="ann", note="again", given=Count(total=5))
        put_off = "select count(*) = 1 from perdure.outbox where tries > 0"
        await world.until(lambda: world.db.fetchval(put_off), "the delivery put off")
        await counter.signal("tell", "go")
        await waiting
        await world.until(lambda: _delivered(world), "delivered")
        assert await world.query("counter", "a", "counted") == 5
        await counter.signal("tell", "close")
        status = await world.client.wait(Counter, "a", timeout=timedelta(seconds=DEADLINE))
    assert (status.generation, status.state) == (1, "closed")


async def test_an_open_entity_is_not_restarted(world: World) -> None:
    await world.client.start(LookupBooking, "a", Booking())
    with pytest.raises(NotNow, match="lookup/a is still open: Only a finished entity can be restarted"):
        await world.client.restart(LookupBooking, "a", by="ann", note="")


async def test_an_entity_with_an_effect_in_doubt_is_not_restarted(world: World) -> None:
    async with world.worker(app):
        enough = await time_enough(world, "escalate")
        world.counterparty.replies.append({"accept": True, "close": True})
        await world.client.start(Escalate, "a", Booking(seconds=enough))
        assert await world.ended("escalate", "a") == "expired"
    assert (await world.client.status(Escalate, "a")).effects[0].status is EffectStatus.IN_DOUBT
    with pytest.raises(NotNow, match="whether 'escalate/a/do-escalate' happened is not known: Resolve"):
        await world.client.restart(Escalate, "a", by="ann", note="")
    assert (await world.client.status(Escalate, "a")).generation == 0


async def test_an_unknown_entity_is_not_restarted(world: World) -> None:
    with pytest.raises(NoSuchEntity, match=r"there is no lookup/a: perdure\.start starts it for the first time"):
        await world.client.restart(LookupBooking, "a", by="ann", note="")


async def test_an_entity_that_was_started_in_sql_without_an_input_restarts_without_one(world: World) -> None:
    await world.db.execute("select perdure.start('lookup', 'a', null)")
    async with store_at(world.dsn) as store:
        await written(store, a_move("a", 1, "sent", final=True, lifecycle="lookup"))
    assert await world.client.restart("lookup", "a", by="ann", note="again") == 1
    assert await world.db.fetchval("select input is null from perdure.entity where generation = 1")


async def _delivered(world: World) -> bool:
    return not (await world.client.status("counter", "a")).waits_for_delivery


async def test_a_restart_that_names_nobody_or_whose_input_no_relay_could_deliver_is_refused(world: World) -> None:
    """Such an input would be rejected later, and the entity would be open without a run."""
    async with world.worker(app):
        await world.client.start(LookupBooking, "a", Booking())
        await world.ended("lookup", "a")
    for who in ("", "x" * 201):
        with pytest.raises(InvalidInput, match=r"lookup/a: by has \d+ characters: give 1 to 200"):
            await world.client.restart("lookup", "a", by=who, note="again")
        with pytest.raises(asyncpg.InvalidParameterValueError, match="or its note can not be used"):
            await world.db.execute("select perdure.restart('lookup', 'a', $1, 'again')", who)
    for given, why in (
        (f"[{'[' * 100}0{']' * 100}]", "nested 100 levels deep"),
        (f'"{"x" * 2000000}"', "are too many"),
    ):
        with pytest.raises(asyncpg.ProgramLimitExceededError, match=why):
            await world.db.execute("select perdure.restart('lookup', 'a', 'ann', 'again', $1)", given)
    assert (await world.client.status("lookup", "a")).final
