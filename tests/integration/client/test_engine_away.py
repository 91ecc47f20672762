"""While Temporal is away, starts are committed and can be looked at, and what needs Temporal raises a clear error."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.service import RetryConfig, RPCError, RPCStatusCode

from perdure.client.asking import Asking
from perdure.errors import AlreadyFinished, TemporalUnavailable
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.apps import talking
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


@pytest.mark.world(talking.app)
async def test_a_request_that_ended_the_entity_and_whose_answer_was_lost_is_not_called_too_late(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`AlreadyFinished` would say that it was refused."""
    executed = Asking._executed

    async def lost(*given: Any) -> str:
        await executed(*given)
        await world.ended("rest", "a")
        raise RPCError("the connection was reset", RPCStatusCode.UNAVAILABLE, b"")

    async with world.worker(talking.app):
        await world.client.start(talking.Rest, "a", Booking(seconds=3600))
        await world.is_in("rest", "a", "doing")
        monkeypatch.setattr(Asking, "_executed", lost)
        with pytest.raises(TemporalUnavailable, match="rest/a: no answer from Temporal: the connection was reset"):
            await world.client.cancel("rest", "a", by="ann")
        with pytest.raises(AlreadyFinished, match="rest/a: too late: already "):
            await world.client.cancel("rest", "a", by="ann")
