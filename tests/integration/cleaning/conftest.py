"""A world whose lifecycles come to grief, and reconciliations of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infra.postgres import PostgresServer
from infra.temporal import TemporalServer
from tests.apps.frail import app
from tests.integration.cleaning.reconciling import Cleaning, cleaning
from tests.world import World


@pytest.fixture
async def world(
    postgres: PostgresServer, temporal: TemporalServer, database: str, tmp_path: Path
) -> AsyncIterator[World]:
    world = World(postgres, temporal, database, tmp_path)
    world.config = world.config.model_copy(update={"reconciliation_every": 24.0})
    async with world.made(app) as made:
        yield made


@pytest.fixture
async def clean(world: World) -> AsyncIterator[Cleaning]:
    """With a worker."""
    async with world.worker(app), cleaning(world) as made:
        yield made
