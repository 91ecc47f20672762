"""A connection to PostgreSQL that is lost without a word, and never cut: bytes are swallowed, new connections work.

And what keeps a transaction from standing still for longer than PostgreSQL allows because of that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest
from temporalio.client import Client

from perdure import _faults as faults
from perdure._services.relay import Relay
from perdure._store.connecting import BOUNDS
from perdure.testing.proxy import Proxy, proxied
from tests.apps import listening
from tests.apps.bodies import app
from tests.world import World

KIND = "lookup-inline"


@pytest.mark.parametrize("restarted", [False, True], ids=["alone", "with a restart of PostgreSQL beside it"])
async def test_every_service_goes_on_within_seconds_and_one_line_names_each(
    mortal: World, restarted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with proxied(mortal.postgres.port) as proxy:
        url = mortal.dsn.replace(str(mortal.postgres.port), str(proxy.port))
        with caplog.at_level(logging.WARNING, "perdure"):
            async with mortal.worker(app, database_url=url):
                await mortal.client.start(KIND, "before", {})
                await mortal.ended(KIND, "before")
                proxy.freeze()
                if restarted:
                    await asyncio.to_thread(mortal.postgres.restart)
                    await mortal.servers_are_back()
                await mortal.db.execute("select perdure.start($1, n::text, '{}') from generate_series(1, 20) n", KIND)
                done = "select count(*) = 20 from perdure.finished where id <> 'before'"
                await mortal.until(lambda: mortal.db.fetchval(done), "all are done")
    dropped = [each for each in caplog.records if "does not answer" in each.message]
    services = [getattr(each, "perdure")["service"] for each in dropped]  # noqa: B009
    assert "relay" in services


@pytest.fixture
def no_faults_after() -> Iterator[None]:
    yield
    faults.inject(None)


@pytest.mark.usefixtures("no_faults_after")
async def test_rows_of_a_relay_that_vanished_during_a_batch_are_delivered_by_another(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BOUNDS, "idle_in_transaction_session_timeout", "5s")
    vanished = asyncio.Event()

    def vanish(place: str, proxy: Proxy) -> None:
        if place.startswith("before the delivery") and not vanished.is_set():
            proxy.freeze()
            vanished.set()

    async with proxied(world.postgres.port) as proxy:
        faults.inject(lambda place: vanish(place, proxy))
        url = world.dsn.replace(str(world.postgres.port), str(proxy.port))
        await world.db.execute("select perdure.start($1, n::text, '{}') from generate_series(1, 20) n", KIND)
        async with world.worker(app, database_url=url):
            await vanished.wait()
            async with world.worker(app):
                delivered = "select not exists (select from perdure.outbox)"
                await world.until(lambda: world.db.fetchval(delivered), "all are delivered")


async def test_a_relay_keeps_what_it_has_delivered_while_temporal_is_slow(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    port = int(world.temporal.address.rpartition(":")[2])
    async with world.worker(listening.app, relay=False), proxied(port) as proxy:
        slow = await Client.connect(f"127.0.0.1:{proxy.port}", data_converter=world.temporal_client.data_converter)
        relay = Relay(world.client._pool, slow, listening.app, world.config)
        await world.db.execute("select perdure.start('listener', 'a', '{}')")
        await relay.once()
        await world.db.execute(
            "select perdure.signal('listener', 'a', 'add', to_jsonb(n)) from generate_series(1, 15) n"
        )
        proxy.delay(0.7)
        with caplog.at_level(logging.WARNING, "perdure"):
            await relay.start()
            delivered = "select not exists (select from perdure.outbox)"
            await world.until(lambda: world.db.fetchval(delivered), "all are delivered")
            await relay.stop()
        assert [each for each in caplog.records if "goes on" in each.message] == []
        assert await world.query("listener", "a", "numbers") == [*range(1, 16)]
