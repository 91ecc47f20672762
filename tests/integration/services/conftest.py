"""Fixtures of the tests of relays."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from perdure._services.relay import Relay
from perdure._store.postgres import Database
from tests.apps.listening import app
from tests.world import World


@pytest.fixture
async def relay(world: World) -> AsyncIterator[Relay]:
    """A relay that makes a generation when it is told to; nothing runs what it starts."""
    database = Database(world.dsn)
    yield Relay(await database.open(), world.temporal_client, app, world.config)
    await database.close()
