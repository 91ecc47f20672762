"""Crash points of web jobs: whatever dies or breaks, a page that knows a key works once, and so does each child."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from activities.web_jobs.contracts import Job
from perdure._store.schema import Connection
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from perdure.testing.crashing import Proof, Servers, Way
from tests.pages import Pages, answers
from workflows.web_jobs.web_job import WebJob

TABLES = (Path(__file__).parents[4] / "activities" / "web_jobs" / "tables.sql").read_text()


@pytest.fixture
async def perdure_servers(postgres: PostgresServer, temporal: TemporalServer, database: str) -> Servers:
    """With the tables of web jobs in the database that is copied."""
    connection = await asyncpg.connect(postgres.dsn(database))
    await connection.execute(TABLES)
    await connection.close()
    return Servers(postgres.dsn(database), temporal.address)


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    """Pages that drop repeats by their key."""
    async with Pages().serving() as serving:
        yield serving


async def prove(crash_points: Callable[..., Any], pages: Pages, type: str, *places: str, **how: Any) -> Proof:
    """The proof of a job of that type, at those places."""

    async def with_its_types(connection: Connection, entity_id: str) -> None:
        columns, values = "name, url, timeout, doubt, remembers, children", "$1, $2, $3, 'dedupe', '1 hour', '{page}'"
        add = f"insert into web_job.type ({columns}) values ({values})"
        for name in ("page", "master"):
            await connection.execute(add, name, f"{pages.origin}/{name}", timedelta(seconds=2))
        await connection.execute("insert into web_job.job (id, type, state) values ($1, $2, 'held')", entity_id, type)

    def happened(key: str) -> int:
        """A page that drops repeats works once, however often it is called with the key."""
        if "/call-page" not in key:
            return 1
        return min(1, sum(each.headers["idempotency-key"] in (f'"{key}"', key) for each in pages.asked))

    proof: Proof = await crash_points(
        WebJob,
        Job(type=type),
        app="workers.web_jobs.app:app",
        happened=happened,
        commit=with_its_types,
        environment={"PERDURE_WEB_ORIGINS": pages.origin, "PERDURE_WEB_NETWORKS": "127.0.0.0/8"},
        only=lambda place: any(each == place for each in places),
        counted=lambda key: "/advance-family/" not in key,
        **how,
    )
    print(proof.summary())
    assert {case.place for case in proof.cases} == set(places)
    assert all(case.hit for case in proof.cases)
    return proof


async def test_whatever_dies_a_page_that_drops_repeats_works_once(
    crash_points: Callable[..., Any], pages: Pages
) -> None:
    proof = await prove(
        crash_points,
        pages,
        "page",
        "before the call of call-page-inline",
        "after the call of call-page-inline",
        "after the commit of fence: outcome call-page-inline",
    )
    assert proof.undisturbed.final == "complete"


async def test_whatever_dies_a_master_leads_each_child_to_its_end_once(
    crash_points: Callable[..., Any], pages: Pages
) -> None:
    children = [{"id": id, "type": "page"} for id in ("1", "2")]
    pages.replies["/master"] = [answers({"children": children, "window": 1})]
    proof = await prove(
        crash_points,
        pages,
        "master",
        "after the call of call-page-inline",
        "before the call of advance-family",
        "after the call of advance-family",
        "before the delivery of a message",
        ways=[Way.KILL],
    )
    assert proof.undisturbed.final == "complete"
