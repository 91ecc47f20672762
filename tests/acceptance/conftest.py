"""Servers of these tests' own, that may be stopped, killed and frozen, and a world on them."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from infra.postgres import PostgresServer
from infra.temporal import TemporalServer
from perdure import schema
from tests.conftest import APP_TABLES
from tests.world import World


@pytest.fixture(scope="session")
def mortal_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server that nobody else uses."""
    with PostgresServer(durable=False) as server:
        yield server


@pytest.fixture(scope="session")
def mortal_temporal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    """A Temporal server that nobody else uses, whose workflows survive it."""
    with TemporalServer(db_file=tmp_path_factory.mktemp("temporal") / "temporal.db") as server:
        yield server


@pytest.fixture
async def mortal(
    mortal_postgres: PostgresServer, mortal_temporal: TemporalServer, tmp_path: Path
) -> AsyncIterator[World]:
    """A world whose servers may go away; the next test finds them running again."""
    from tests.apps.bodies import app

    database = "test_" + secrets.token_hex(6)
    mortal_postgres.start()
    mortal_temporal.start()
    admin = await asyncpg.connect(mortal_postgres.dsn())
    await admin.execute(f"create database {database}")
    await admin.close()
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
