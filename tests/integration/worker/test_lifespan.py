"""`App(lifespan=)`: bodies share what was opened for their worker, and it is closed after the last of them."""

from __future__ import annotations

from tests.apps.commanding import OPENED, Sharing, app
from tests.world import World


async def test_bodies_and_look_ups_share_what_was_opened_for_their_worker(world: World) -> None:
    OPENED.clear()
    async with world.worker(app):
        for number in range(3):
            await world.client.start(Sharing, number, "it")
        for number in range(3):
            assert await world.ended("sharing", number) == "done"
        [shared] = OPENED
        assert not shared.closed
    assert (shared.scope, shared.closed) == (world.scope, True)
    assert sorted(shared.used) == [f"used for sharing/{number}/use-shared" for number in range(3)]
