"""Reconciliations on the world of a test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.apps import bodies, frail
from tests.integration.reconcile.entities import Cleaning, cleaning
from tests.integration.reconcile.parts import Sweep, sweeping
from tests.world import World


@pytest.fixture
async def clean(world: World) -> AsyncIterator[Cleaning]:
    """A reconciliation of lifecycles that come to grief, with a worker."""
    async with world.worker(frail.app), cleaning(world) as made:
        yield made


@pytest.fixture
async def sweep(world: World) -> AsyncIterator[Sweep]:
    """Its parts, with the app of the errands."""
    async with sweeping(world, bodies.app) as made:
        yield made
