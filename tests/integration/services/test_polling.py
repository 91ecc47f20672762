"""A worker that Temporal receives no polls of has stood still, whatever its services report."""

from __future__ import annotations

import pytest

from perdure._services.polling import Polling
from tests.apps.bodies import app
from tests.world import World


@pytest.mark.parametrize("deployment", [None, "shop:1"])
async def test_a_worker_that_polls_is_told_from_one_that_does_not(world: World, deployment: str | None) -> None:
    async with world.worker(app, deployment=deployment) as client:
        stranger = Polling(client, world.config.queue, "stranger", silence=0)
        await stranger.once()
        assert stranger.pulse.hung is not None
        assert "no poll of stranger" in stranger.pulse.hung.why

        async def polls() -> bool:
            worker = Polling(client, world.config.queue, client.identity, silence=0)
            await worker.once()
            return worker.pulse.hung is None

        await world.until(polls, "Temporal has received a poll")
