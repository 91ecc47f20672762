"""The pytest plugin that comes with perdure: the fixture `crash_points`.

    async def test_whatever_dies_the_order_is_shipped_once(crash_points, depot):
        await crash_points(ShipOrder, order, app="shop.lifecycles:app", happened=depot.count)

The fixture `perdure_servers`, or the environment, names the servers.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # every pytest of the environment imports a plugin, so the import must cost nothing
    from perdure.testing.crashing import Servers


@pytest.fixture(scope="session")
def perdure_servers() -> Servers:
    """The servers for `crash_points`; override it, or set `PERDURE_DATABASE_URL` and `TEMPORAL_ADDRESS`.

    The database is copied for each case. It needs the schema `perdure` and the app's tables, and no other connections.
    """
    from perdure.testing.crashing import Servers

    try:
        return Servers(os.environ["PERDURE_DATABASE_URL"], os.environ.get("TEMPORAL_ADDRESS", "localhost:7233"))
    except KeyError:
        raise pytest.UsageError(
            "crash_points needs servers: set PERDURE_DATABASE_URL to a database that may be copied (and "
            "TEMPORAL_ADDRESS), or override the fixture perdure_servers"
        ) from None


@pytest.fixture
def crash_points(perdure_servers: Servers, tmp_path: Path) -> Callable[..., Any]:
    """`await crash_points(Lifecycle, input, app=..., happened=...)`; see `perdure.testing.crashing.prove`."""
    from perdure.testing.crashing import prove

    return functools.partial(prove, servers=perdure_servers, folder=tmp_path)
