"""Servers of these tests' own, that may be stopped, killed and frozen, and a world on them."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from perdure._store import schema
from perdure.servers.healing import healed
from perdure.servers.memory import memory
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.app_tables import APP_TABLES
from tests.conftest import PROMPT_TIMERS, as_admin
from tests.world import World


@pytest.fixture(scope="session")
def mortal_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server that nobody else uses."""
    with PostgresServer(durable=False) as server:
        yield server


@pytest.fixture(scope="session")
def mortal_temporal() -> Iterator[TemporalServer]:
    """A Temporal server that nobody else uses, whose workflows survive it."""
    with (
        tempfile.TemporaryDirectory(prefix="perdure-temporal-", dir=memory()) as folder,
        TemporalServer(db_file=Path(folder) / "temporal.db", dynamic_config=PROMPT_TIMERS) as server,
        healed(server),
    ):
        yield server


@pytest.fixture
async def another_world(postgres: PostgresServer, temporal: TemporalServer, tmp_path: Path) -> AsyncIterator[World]:
    """A world beside `world`: what mostly waits for time-outs waits for two of them at once."""
    from tests.apps.bodies import app

    database, folder = "test_" + secrets.token_hex(6), tmp_path / "another"
    folder.mkdir()
    await as_admin(postgres, f"create database {database} template perdure_template")
    async with World(postgres, temporal, database, folder).made(app) as made:
        yield made
    await as_admin(postgres, f"drop database {database} with (force)")


@pytest.fixture
async def mortal(
    mortal_postgres: PostgresServer, mortal_temporal: TemporalServer, tmp_path: Path
) -> AsyncIterator[World]:
    """A world whose servers may go away; the next test finds them running again."""
    from tests.apps.bodies import app

    database = "test_" + secrets.token_hex(6)
    mortal_postgres.start()
    mortal_temporal.start()
    await as_admin(mortal_postgres, f"create database {database}")
    connection = await asyncpg.connect(mortal_postgres.dsn(database))
    await schema.migrate(connection)
    await connection.execute(APP_TABLES)
    await connection.close()
    try:
        async with World(mortal_postgres, mortal_temporal, database, tmp_path).made(app) as made:
            yield made
    finally:
        if mortal_temporal.running:
            mortal_temporal.resume()
