"""A reconciliation on the world of a test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.apps.bodies import app
from tests.integration.cleaning_up.reconciling import Sweep, sweeping
from tests.world import World


@pytest.fixture
async def sweep(world: World) -> AsyncIterator[Sweep]:
    """Its parts, with the app of the errands."""
    async with sweeping(world, app) as made:
        yield made
