"""What tests of the operator's commands share."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import pytest

from tests.world import World


@pytest.fixture
async def role(world: World) -> AsyncIterator[str]:
    """A role to which nothing was granted."""
    name = f"shop_{secrets.token_hex(4)}"
    await world.db.execute(f"create role {name} login")
    yield name
    await world.db.execute(f"drop owned by {name}; drop role {name}")
