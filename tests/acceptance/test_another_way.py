"""A workflow task is lost after it began an attempt; the next task takes another way because of a message."""

from __future__ import annotations

from perdure.contracts import EffectStatus
from tests.apps.contracts import Booking
from tests.apps.talking import RingAgain, RingLater
from tests.world import World

APP = "tests.apps.talking:app"


async def test_an_entity_does_not_end_before_a_person_has_settled_what_a_lost_task_had_begun(world: World) -> None:
    world.counterparty.before_replying.shut()
    first = await world.spawn(APP)
    await world.client.start(RingLater, "a", Booking())
    await world.counterparty.has_accepted()
    await first.kill()
    world.counterparty.before_replying.open()
    await world.handle("ring-later", "a").signal(RingLater.hear, "not now")
    await world.spawn(APP)

    await world.until(lambda: _waits_for_a_person(world), "the attempt of the lost task parked")
    assert await world.db.fetchval("select final from perdure.ident where id = 'a'") is None
    await world.client.resolve(RingLater, "a", EffectStatus.DONE, by="ann", note="it rang", receipt={"number": 1})
    assert await world.ended("ring-later", "a") == "cancelled"
    assert await world.db.fetchval("select status from perdure.effect") == "done"
    assert world.counterparty.accepted.total() == 1


async def test_an_effect_that_may_be_repeated_needs_no_person(world: World) -> None:
    world.counterparty.before_replying.shut()
    first = await world.spawn(APP)
    await world.client.start(RingAgain, "a", Booking())
    await world.counterparty.has_accepted()
    await first.kill()
    world.counterparty.before_replying.open()
    await world.handle("ring-again", "a").signal(RingAgain.hear, "not now")
    await world.spawn(APP)

    assert await world.ended("ring-again", "a") == "cancelled"
    [effect] = await world.db.fetch("select status, why from perdure.effect")
    assert tuple(effect) == ("abandoned", "its workflow task was lost, and the next one took another way")
    assert await world.db.fetchval("select count(*) from perdure.transition where attention is not null") == 0


async def _waits_for_a_person(world: World) -> bool:
    return (await world.client.status(RingLater, "a")).attention is not None
