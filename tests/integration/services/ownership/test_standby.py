"""A standby that commands ask in place of the primary, and that is behind, is named."""

from __future__ import annotations

import asyncpg
import pytest

from infra.clusters import base_backup
from perdure.servers.postgres import PostgresServer
from tests.apps.bodies import app
from tests.command import perdure
from tests.integration.services.ownership.conftest import Worlds
from tests.integration.services.ownership.test_copies import started
from tests.world import World

COMMANDS = {
    "reconcile --now": "PostgreSQL is a standby, which takes no writes and may be behind",
    "reconcile repeat a": "repeat/a: the database has no such entity; or this standby has not received it yet",
    "show repeat a": "or its transaction was rolled back; or this standby has not received it yet",
    "cancel repeat a --by ann": "PostgreSQL is a standby, which takes no writes and may be behind",
}


async def behind(world: World, worlds: Worlds, source: PostgresServer) -> str:
    """The URL of a standby that receives no more of this world."""
    standby = base_backup(source, worlds.folder, "standby", standby=True)
    worlds.running(standby)
    dsn = standby.dsn(world.dsn.rpartition("/")[2])
    db = await asyncpg.connect(dsn)
    await db.execute("select pg_wal_replay_pause()")
    await world.until(lambda: db.fetchval("select pg_get_wal_replay_pause_state() = 'paused'"), "the standby is behind")
    await db.close()
    return dsn


async def test_what_a_standby_has_not_received_is_not_said_to_be_absent(source: PostgresServer, worlds: Worlds) -> None:
    world = await worlds.on(source)
    async with world.worker(app):
        await started(world, "earlier")
        dsn = await behind(world, worlds, source)
        await started(world, "a")
        for command, text in COMMANDS.items():
            end = await perdure(world, *command.split(), PERDURE_DATABASE_URL=dsn)
            said = end.stderr or str(end.exception)
            assert text in said, (command, end.output)
            assert "set PERDURE_DATABASE_URL to the primary" in said, command
            assert end.exit_code == 1, command


async def test_a_reconciliation_that_leaves_something_ends_with_1_even_if_its_findings_are_not_shown(
    source: PostgresServer, worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await worlds.on(source)
    async with world.worker(app):
        world.counterparty.replies += [{"accept": True, "close": True}]
        await started(world, "a", kind="escalate")
        await world.until(
            lambda: world.db.fetchval("select attention is not null from perdure.entity where id = 'a'"), "it is parked"
        )
        dsn = await behind(world, worlds, source)
        await world.db.execute("delete from perdure.finding")

        async def anything(_: object) -> None:
            """The URL led to the primary at first."""

        monkeypatch.setattr("perdure.cli.reconcile.check_primary", anything)
        end = await perdure(world, "reconcile", "--now", "--grace", "0s", PERDURE_DATABASE_URL=dsn)
        assert "1 left for a person" in end.stdout
        assert end.exit_code == 1
