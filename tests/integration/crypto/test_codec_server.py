"""`perdure codec-server` decrypts for the real `temporal` command, and only with a token."""

from __future__ import annotations

import base64
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure._crypto.access import new_token
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.apps.private_messages import PHONE, SECRET, PrivateMessage, app
from tests.forked import Forked
from tests.integration.crypto.fixtures import FIRST, GIVEN, keys
from tests.world import World


@pytest.fixture
async def world(
    postgres: PostgresServer, temporal: TemporalServer, database: str, tmp_path: Path
) -> AsyncIterator[World]:
    """One whose payloads are encrypted."""
    made = World(postgres, temporal, database, tmp_path)
    made.config = made.config.model_copy(update=keys(FIRST))
    async with made.made(app) as made:
        yield made


async def test_the_temporal_command_reads_and_writes_by_it_with_a_token_alone(world: World, tmp_path: Path) -> None:
    token, kept = new_token()
    (tmp_path / "tokens").write_text(f"ann {kept}\n")
    log = tmp_path / "codec-server.log"
    server = Forked(
        ["codec-server", "--tokens", str(tmp_path / "tokens"), "--port", "0"],
        {**world.environment(), "PERDURE_KEYS": FIRST},
        log,
    )
    try:
        async with world.worker(app):
            await world.client.start(PrivateMessage, "a", GIVEN)
            await world.is_in("private-message", "a", "waiting")
            await world.asked("private-message", "a")
        says = re.compile(r"running \|.* port=(\d+)")
        found = await world.until(lambda: log.exists() and says.search(log.read_text()), f"it runs, see {log}")
        at = ("--codec-endpoint", f"http://127.0.0.1:{found[1]}/{{namespace}}")
        auth = ("--codec-auth", f"Bearer {token}")
        which = ("--workflow-id", world.handle("private-message", "a").id)
        show = ("workflow", "show", *which, "--output", "json")
        in_json = base64.b64encode(GIVEN.model_dump_json().encode()).decode()
        without = await world.temporal_command(*show)
        with_token = await world.temporal_command(*show, *at, *auth)
        with_none = await _failing(world, *show, *at, "--command-timeout", "0.5s")
        assert (in_json in with_token, in_json in without + with_none) == (True, False)
        assert "refused | peer=" in log.read_text()
        word = f'{{"to": "{PHONE}", "text": "said by the command"}}'
        await world.temporal_command("workflow", "signal", *which, "--name", "hear", "--input", word, *at, *auth)
        shown = await world.temporal_command(*show)
        assert "WORKFLOW_EXECUTION_SIGNALED" in shown
        assert base64.b64encode(word.encode()).decode() not in shown
        assert "decoded | by=ann" in log.read_text()
        assert SECRET not in log.read_text()
        server.send_signal(signal.SIGTERM)
        assert await server.wait() == 0
    finally:
        server.send_signal(signal.SIGKILL)


async def _failing(world: World, *arguments: str) -> str:
    """What the command says where it fails, or where it shows what it has."""
    try:
        return await world.temporal_command(*arguments)
    except AssertionError as error:
        return str(error)
