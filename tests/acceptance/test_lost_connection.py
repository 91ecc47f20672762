"""A connection to PostgreSQL that is lost without a word, and never cut: bytes are swallowed, new connections work."""

from __future__ import annotations

import asyncio
import logging

import pytest

from perdure.testing.proxy import proxied
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
