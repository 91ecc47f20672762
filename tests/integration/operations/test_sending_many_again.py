"""An act on many sends again the effects that its filter chose, however late the turn of an entity comes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perdure._operations.acts import Acts
from perdure._operations.session import session
from perdure.cli.acting import _choices as chosen
from perdure.cli.targets import OpenTargets
from perdure.contracts.keys import Entity
from perdure.errors import NotNow
from perdure.settings import settings
from tests.apps.contracts import Booking
from tests.apps.pairs import Pair, app
from tests.integration.operations.acts import record
from tests.world import World

pytestmark = pytest.mark.world(app)

REFUSED = """
    select exists (select from perdure.effect f join perdure.entity e using (lifecycle, id)
        where f.key = $1 and f.status = 'refused' and e.attention is not null)
"""


async def refused(world: World, key: str) -> None:
    """Wait until an effect is refused, and a person is needed."""
    await world.until(lambda: world.db.fetchval(REFUSED, key), f"{key} is refused")


@pytest.mark.parametrize(
    ("attention", "why"),
    [(True, "needed a person when it was chosen"), (False, "name one of charge-card")],
    ids=["those that need a person", "all of the lifecycle"],
)
async def test_an_effect_that_its_filter_did_not_choose_is_not_sent_again(
    world: World, monkeypatch: pytest.MonkeyPatch, attention: bool, why: str
) -> None:
    targets = OpenTargets(lifecycle="pair", attention=attention, by="ann")
    for name, value in world.environment().items():
        monkeypatch.setenv(name, value)
    no_seat = {"refused": "no seat"}
    stolen = {"refused": "stolen card"}
    world.counterparty.replies_to = {"1": [no_seat, {}, stolen], "2": [no_seat, no_seat], "3": [no_seat]}
    async with world.worker(app), session(settings(), app, targets.asked, 20) as opened:
        for each in "123":
            await world.client.start(Pair, each, Booking())
            await refused(world, f"pair/{each}/reserve-seat")
        until = await world.db.fetchval("select clock_timestamp()")
        choices = [each async for each in chosen(targets, opened, None, until)]
        acts = await opened.acts(asks_temporal=True)

        async def sent(acts: Acts, number: int) -> str:
            return await acts.send_again(Entity("pair", str(number)))

        assert await sent(acts, 1) == await sent(acts, 2) == "reserve-seat goes anew", "somebody else is faster"
        await refused(world, "pair/1/charge-card")
        await refused(world, "pair/2/reserve-seat~1")
        by_ann = [replace(acts, seen=each.seen) for each in choices]
        with pytest.raises(NotNow, match=why):
            await sent(by_ann[0], 1)
        with pytest.raises(NotNow, match="effect='pair/2/reserve-seat': name one of reserve-seat"):
            await sent(by_ann[1], 2)
        assert await sent(by_ann[2], 3) == "reserve-seat goes anew"
        assert await world.ended("pair", "3") == "done"
    assert world.counterparty.seen("do", "pair/1/charge-card") == 1, "nobody has charged a stolen card again"
    assert [len(await record(world, "pair", each)) for each in "123"] == [1, 1, 1]
