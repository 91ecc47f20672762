"""The relay delivers each start once, and what can't be delivered affects nothing else."""

from __future__ import annotations

import json

from perdure import Client
from tests.apps.bodies import app
from tests.apps.bookings import LookupBooking
from tests.apps.contracts import Booking
from tests.apps.strict import app as strict_app
from tests.world import World

KIND = "lookup-inline"
"""Not one with `Repeat`: that may do it twice, where a busy machine loses a workflow task."""


async def test_a_bad_row_among_a_hundred_good_ones_is_rejected_and_they_are_done(world: World) -> None:
    good = "select perdure.start($1, 'good-' || n, '{}') from generate_series(1, $2) n"
    await world.db.execute(good, KIND, 50)
    await world.db.execute("select perdure.start($1, 'bad', '{\"seconds\": \"many\"}')", KIND)
    await world.db.execute("select perdure.start($1, 'odd', '{}')", KIND)
    for table in ("outbox", "transition", "entity", "ident"):  # as a version that allowed such an id has left it
        await world.db.execute(f"update perdure.{table} set id = $1 where id = 'odd'", "un\u2028printable")
    await world.db.execute(good.replace("good", "fine"), KIND, 50)

    async with world.worker(app):
        await world.until(lambda: _finished(world, 100), "a hundred done")

        async def rejected() -> bool:
            return bool(await world.db.fetchval("select count(*) = 2 from perdure.rejected"))

        await world.until(rejected, "two rejected")
    assert set(world.counterparty.accepted.values()) == {1}
    bad = await world.client.status(KIND, "bad")
    assert bad.rejected == "lookup-inline: the input does not fit: seconds: Input should be a valid number, " + (
        "unable to parse string as a number"
    )
    assert bad.attention == f"rejected: {bad.rejected}"
    odd = await world.client.status(KIND, "un\u2028printable")
    assert "has characters that can't be seen" in str(odd.rejected)
    assert [each.id for each in await world.client.list(KIND, attention=True)] == ["bad", "un\u2028printable"]
    assert await world.db.fetchval("select count(*) from perdure.outbox") == 0


async def test_an_input_given_by_name_alone_is_checked_at_the_delivery(world: World) -> None:
    client = Client(world.client._pool, config=world.config)
    await client.start("lookup", "a", {"seconds": "many"})
    async with world.worker(app):

        async def rejected() -> bool:
            return (await client.status("lookup", "a")).rejected is not None

        await world.until(rejected, "rejected")
        assert (await client.start("lookup", "b", {"what": "this"})).answer == "started"
        assert await world.ended("lookup", "b") == "done"


async def test_an_input_of_a_strict_type_is_delivered_and_read(world: World) -> None:
    await world.db.execute("select perdure.start('strict', 'a', '{\"at\": \"2030-01-01T00:00:00Z\"}')")
    async with world.worker(strict_app):
        assert await world.ended("strict", "a") == "done"
    assert await world.db.fetchval("select why from perdure.transition where state = 'done'") == "2031"


async def test_two_relays_at_once_deliver_each_start_once(world: World) -> None:
    async with world.worker(app), world.worker(app):
        for number in range(120):
            await world.client.start(KIND, number, Booking())
        await world.until(lambda: _finished(world, 120), "all done")
    assert len(world.counterparty.accepted) == 120
    assert set(world.counterparty.accepted.values()) == {1}


async def test_a_start_that_is_delivered_again_starts_nothing_again(world: World) -> None:
    world.counterparty.before_accepting.shut()
    async with world.worker(app):
        await world.client.start(LookupBooking, "a", Booking())
        await world.counterparty.saw("do")
        state = (await world.client.status("lookup", "a")).state
        await world.handle("lookup", "a").terminate()
        closed = await world.handle("lookup", "a").describe()
        await world.db.execute(
            "insert into perdure.outbox (lifecycle, id, generation, kind) values ('lookup', 'a', 0, 'start')"
        )
        await world.until(lambda: world.db.fetchval("select count(*) = 0 from perdure.outbox"), "delivered")
        assert (await world.handle("lookup", "a").describe()).run_id == closed.run_id
        assert (await world.client.status("lookup", "a")).state == state
        world.counterparty.before_accepting.open()
    assert await world.db.fetchval("select count(*) from perdure.rejected") == 0


async def test_what_the_input_was_reaches_the_lifecycle_as_it_was_committed(world: World) -> None:
    newer = """select perdure.start('lookup', 'newer', '{"what": "this", "only newer workers have it": 1}')"""
    await world.db.execute(newer)
    async with world.worker(app):
        await world.client.start(LookupBooking, "a", Booking(what="späť ✓", seconds=60.5))
        for each in ("a", "newer"):
            await world.ended("lookup", each)
    stored = await world.db.fetchval("select input from perdure.finished where id = 'a'")
    assert json.loads(stored) == {"what": "späť ✓", "seconds": 60.5}
    begun = (
        (await world.handle("lookup", "newer").fetch_history()).events[0].workflow_execution_started_event_attributes
    )
    assert json.loads(begun.input.payloads[0].data)["only newer workers have it"] == 1


async def _finished(world: World, count: int) -> bool:
    return bool(await world.db.fetchval("select count(*) = $1 from perdure.finished", count))
