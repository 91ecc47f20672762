"""A world whose lifecycles can be talked to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infra.postgres import PostgresServer
from infra.temporal import TemporalServer
from tests.apps.talking import app
from tests.world import World


@pytest.fixture
async def world(
    postgres: PostgresServer, temporal: TemporalServer, database: str, tmp_path: Path
) -> AsyncIterator[World]:
    """See the module."""
    async with World(postgres, temporal, database, tmp_path).made(app) as made:
        yield made
