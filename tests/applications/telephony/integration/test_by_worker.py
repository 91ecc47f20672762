"""A worker sends a notice once though the answer was lost, and a callback settles an effect in doubt."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from activities.telephony.settings import telephony_settings
from infra.telephony.server import ACCOUNT, TOKEN, Fault, TelephonyServer
from perdure.servers.ports import free_port
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.applications.telephony.announcing import app
from tests.world import World
from workers.telephony.callbacks import StatusCallbacks

NUMBER, TEXT = "+15552223333", "Take 5 mg of Warfarin"


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TelephonyServer]:
    async with TelephonyServer() as server:
        given = {"API_URL": server.origin, "ACCOUNT_SID": ACCOUNT, "AUTH_TOKEN": TOKEN, "SENDER": "+15005550006"}
        for name, value in given.items():
            monkeypatch.setenv(f"PERDURE_TELEPHONY_{name}", value)
        telephony_settings.cache_clear()
        yield server
    telephony_settings.cache_clear()


@pytest.fixture
async def world(
    postgres: PostgresServer, temporal: TemporalServer, database: str, tmp_path: Path, server: TelephonyServer
) -> AsyncIterator[World]:
    async with World(postgres, temporal, database, tmp_path).made(app) as made:
        yield made


async def tell(world: World, id: str, channel: str = "sms", to: str = NUMBER) -> None:
    """Start to tell somebody."""
    until = datetime.now(UTC) + timedelta(hours=1)
    announcement: dict[str, Any] = {"to": to, "text": TEXT, "channel": channel, "until": until}
    await world.client.start("announcement", id, announcement)


async def test_a_notice_whose_answer_was_lost_is_found_and_one_that_was_put_off_is_sent_once(
    world: World, server: TelephonyServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with world.worker(app):
        faults = {"lost": Fault.RESET_AFTER, "busy": Fault.TOO_MANY}
        server.orders.order(*faults.values())
        for id in faults:
            await tell(world, id)
        assert [await world.ended("announcement", id) for id in faults] == ["sent", "sent"]
        await tell(world, "bad", to="+15005550004")
        assert await world.ended("announcement", "bad") == "refused"
    assert len(server.accepted) == 2
    assert set(server.references.values()) == {1}
    whys = await world.db.fetch("select why from perdure.transition union all select why from perdure.effect")
    told = caplog.text + "".join(str(row["why"]) for row in whys)
    assert "has unsubscribed" in told
    assert [each for each in (NUMBER[1:], "15005550004", "Warfarin", TOKEN) if each in told] == []


async def test_a_callback_settles_a_call_that_no_look_up_can_tell_apart(
    world: World, server: TelephonyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    monkeypatch.setenv("PERDURE_TELEPHONY_CALLBACK_URL", f"http://127.0.0.1:{port}/telephony")
    telephony_settings.cache_clear()
    server.orders.order(Fault.RESET_AFTER)
    async with (
        asyncpg.create_pool(world.dsn, min_size=0, max_size=2) as pool,
        StatusCallbacks(pool, telephony_settings()).listening("127.0.0.1", port),
        world.worker(app),
    ):
        await tell(world, "1", "call")
        assert await world.ended("announcement", "1") == "sent"
    assert len(server.accepted) == 1
    why = await world.db.fetchval("select why from perdure.transition order by version desc limit 1")
    assert why in ("initiated", "ringing", "in-progress", "completed")
