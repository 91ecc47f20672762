"""A worker that fails at its start ends `run` with the error, whoever waits for it."""

from __future__ import annotations

import pytest

from perdure.errors import PerdureError
from tests.apps.straight import app
from tests.deadline import in_time
from tests.world import World


async def test_the_block_that_runs_it_ends_with_its_error(world: World) -> None:
    without_tables = world.dsn.rpartition("/")[0] + "/postgres"

    async def run() -> None:
        async with world.worker(app, database_url=without_tables):
            pytest.fail("it runs")

    with pytest.raises(PerdureError, match="migrate"):
        await in_time(run())
