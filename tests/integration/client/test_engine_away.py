"""While Temporal is away, starts are committed and can be looked at, and what needs Temporal raises a clear error."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.service import RetryConfig

from perdure.errors import TemporalUnavailable
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.apps.bodies import app
from tests.apps.bookings import LookupBooking
from tests.apps.contracts import Booking
from tests.world import World


@pytest.fixture
def own(tmp_path: Path) -> Iterator[TemporalServer]:
    """A server that can be stopped, and remembers."""
    with TemporalServer(db_file=tmp_path / "temporal.db") as server:
        yield server


@pytest.fixture
async def apart(postgres: PostgresServer, own: TemporalServer, database: str, tmp_path: Path) -> AsyncIterator[World]:
    """A world on that server."""
    async with World(postgres, own, database, tmp_path).made(app) as made:
        yield made


async def test_what_was_started_while_temporal_was_away_is_done_when_it_is_back(
    apart: World, own: TemporalServer
) -> None:
    async with apart.worker(app):
        apart.client._temporal_client = await Client.connect(
            own.address,
            data_converter=apart.temporal_client.data_converter,
            retry_config=RetryConfig(max_elapsed_time_millis=200),
        )
        own.stop()
        handle = await apart.client.start(LookupBooking, "a", Booking())
        assert (await handle.status()).state == "starting"
        with pytest.raises(TemporalUnavailable, match="lookup/a: no answer from Temporal"):
            await apart.client.cancel(LookupBooking, "a", by="ann")
        own.start()
        assert await apart.ended("lookup", "a") == "done"
    assert apart.counterparty.accepted == {"lookup/a/do-lookup": 1}
