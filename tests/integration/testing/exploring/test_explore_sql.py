"""Explorations on PostgreSQL: nothing reads the real clock, a seed plays the same way, and all promises hold."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import asyncpg
import pytest

import perdure
from perdure._store import schema
from perdure.servers.postgres import PostgresServer
from perdure.testing.exploring.programs import Program
from perdure.testing.exploring.scenario import Event, Fault
from perdure.testing.exploring.sql_acts import Act
from perdure.testing.exploring.sql_clock import escapes, reads_real_clock, real_clocks
from perdure.testing.exploring.sql_database import TABLES
from perdure.testing.exploring.sql_explorer import SqlExplorer, script
from perdure.testing.exploring.sql_scenarios import SqlScenario
from perdure.testing.server import START
from tests.conftest import as_admin

SEEDS = range(200, 212)
CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))
_TIMES = (
    "select c.oid::regclass::text as name, quote_ident(a.attname) as attribute from pg_attribute a "
    "join pg_class c on c.oid = a.attrelid where c.relnamespace = 'perdure'::regnamespace and c.relkind in ('r', 'p') "
    "and not c.relispartition and a.atttypid = 'timestamptz'::regtype and c.relname = any($1)"
)


def read(path: Path) -> SqlScenario:
    """A scenario of the corpus."""
    kept = json.loads(path.read_text())
    kept["entities"] = tuple((name, Program.model_validate(program)) for name, program in kept["entities"])
    kept["acts"] = tuple(Act(**each) for each in kept["acts"])
    kept["events"] = tuple(Event(**each) for each in kept["events"])
    for name in ("faults", "relay_faults"):
        kept[name] = tuple(Fault(**each) for each in kept[name])
    return SqlScenario(**kept | {name: tuple(kept[name]) for name in ("builds", "relays")})


@pytest.fixture(scope="module")
def url(postgres: PostgresServer) -> Iterator[str]:
    """An empty database."""
    name = "explored_" + secrets.token_hex(4)
    asyncio.run(as_admin(postgres, f"create database {name}"))
    yield postgres.dsn(name)
    asyncio.run(as_admin(postgres, f"drop database {name} with (force)"))


@pytest.fixture(scope="module")
def explorer(url: str) -> Iterator[SqlExplorer]:
    """One that has prepared it."""
    with SqlExplorer(url) as explorer:
        yield explorer


def test_no_scenario_breaks_a_promise(explorer: SqlExplorer) -> None:
    for seed in SEEDS:
        one = explorer.scenario(seed)
        if found := explorer.play(one):
            smallest = explorer.smallest(one, found[0].kind, most=100)
            pytest.fail(f"seed {seed}: {explorer.play(smallest)[0]}\n\n{script(smallest)}")


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_no_scenario_of_the_corpus_fails_again(explorer: SqlExplorer, path: Path) -> None:
    assert explorer.play(read(path)) == []


def test_the_same_seed_plays_the_same_bytes(explorer: SqlExplorer) -> None:
    traces = [explorer.world(explorer.scenario(seed)).trace.hexdigest() for seed in (3, 9, 3, 9)]
    assert traces[:2] == traces[2:]
    assert traces[0] != traces[1]


def test_no_function_default_or_query_reads_the_real_clock(explorer: SqlExplorer, url: str) -> None:
    async def read() -> list[str]:
        connection = await asyncpg.connect(url)
        try:
            return await real_clocks(connection)
        finally:
            await connection.close()

    assert asyncio.run(read()) == []
    found = list(Path(perdure.__file__).parent.glob("*/queries/*.sql"))
    assert len(found) > 80, "each room has a folder of them"
    assert [each for each in found if escapes(each.read_text())] == []


async def test_a_statement_that_reads_the_real_clock_is_found(postgres: PostgresServer, database: str) -> None:
    connection = await asyncpg.connect(postgres.dsn(database))
    try:
        functions = [text for text in await real_clocks(connection) if "FUNCTION" in text]
        assert any("perdure.start(" in text for text in functions)
        assert any("perdure.apply_move(" in text for text in functions)
        await schema.check(connection)
    finally:
        await connection.close()
    assert all(
        map(reads_real_clock, ("now()", "select clock_timestamp ( )", "current_timestamp", "'now'::timestamptz"))
    )
    assert not any(map(reads_real_clock, ("sim.now()", "unknown()", "x.now", "current_timestamps")))


def test_all_that_a_scenario_leaves_on_record_has_virtual_times(explorer: SqlExplorer, url: str) -> None:
    explorer.play(explorer.scenario(3))

    async def read() -> dict[str, datetime]:
        connection = await asyncpg.connect(url)
        try:
            oldest: dict[str, datetime] = {}
            for name, attribute in await connection.fetch(_TIMES, TABLES):
                found = await connection.fetchval(f"select min({attribute}) from {name}")
                if found is not None:
                    oldest[f"{name}.{attribute}"] = found
            return oldest
        finally:
            await connection.close()

    oldest = asyncio.run(read())
    assert {"perdure.transition.at", "perdure.finished.finished_at", "perdure.relay.seen_at"} <= oldest.keys()
    assert min(oldest.values()) >= START
