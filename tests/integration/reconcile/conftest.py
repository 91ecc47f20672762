"""Reconciliations on the world of a test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.apps import bodies, failing
from tests.integration.reconcile.reconciling import OLD_ENOUGH, Reconciling, reconciling
from tests.world import World


@pytest.fixture
async def reconciliation(world: World) -> AsyncIterator[Reconciling]:
    """A reconciliation of lifecycles that fail in many ways, for which everything is old enough; with a worker."""
    async with world.worker(failing.app), reconciling(world, failing.app, OLD_ENOUGH) as made:
        yield made


@pytest.fixture
async def parts(world: World) -> AsyncIterator[Reconciling]:
    """Parts of a reconciliation with the app of the bookings."""
    async with reconciling(world, bodies.app) as made:
        yield made
