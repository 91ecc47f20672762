"""Random families keep their promises, and what once broke one keeps it.

`python -m tests.applications.web_jobs.families` plays more.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.servers.postgres import PostgresServer
from tests.applications.web_jobs.families.explorer import FamilyExplorer
from tests.applications.web_jobs.families.over_http import Server, real_answers
from tests.applications.web_jobs.families.scenario import SCENARIO, family_scenario, lines_of
from tests.applications.web_jobs.families.world import FamilyWorld
from tests.conftest import as_admin

SEEDS = range(14)
OVER_HTTP = (5, 8)
CORPUS = sorted((Path(__file__).parents[1] / "families" / "corpus").glob("*.json"))


@pytest.fixture(scope="module")
def explorer(postgres: PostgresServer) -> Iterator[FamilyExplorer]:
    """One with a database of its own."""
    name = "families_" + secrets.token_hex(4)
    asyncio.run(as_admin(postgres, f"create database {name}"))
    with FamilyExplorer(postgres.dsn(name)) as explorer:
        yield explorer
    asyncio.run(as_admin(postgres, f"drop database {name} with (force)"))


def test_random_families_keep_every_promise(explorer: FamilyExplorer) -> None:
    for seed in SEEDS:
        one = family_scenario(seed)
        if found := explorer.play(one):
            smallest = explorer.smallest(one, found[0].kind, most=60)
            pytest.fail(f"seed {seed}: {explorer.play(smallest)[0]}\n\n{lines_of(smallest)}")


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_no_family_of_the_corpus_breaks_a_promise_again(explorer: FamilyExplorer, path: Path) -> None:
    assert explorer.play(SCENARIO.validate_json(path.read_text())) == []


def test_the_same_seed_plays_families_the_same_way(explorer: FamilyExplorer) -> None:
    traces = [explorer.world(family_scenario(seed)).trace.hexdigest() for seed in (5, 8, 5)]
    assert traces[0] == traces[2] != traces[1]


def test_pages_that_answer_by_http_bring_families_to_the_same_end(explorer: FamilyExplorer) -> None:
    for seed in OVER_HTTP:
        one = family_scenario(seed)
        played = explorer.world(one)
        with Server() as server, real_answers(server):
            by_http = explorer.world(one)
        assert (by_http.findings, ends_of(by_http)) == ([], ends_of(played))
        assert server.answers


def ends_of(world: FamilyWorld) -> dict[str, list[str]]:
    """All states of all jobs."""
    return {id: [each.state for each in world.database.moves(row.entity)] for id, row in world.database.rows.items()}
