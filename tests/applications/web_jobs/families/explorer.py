"""Explores families: prepares a database, plays the scenario of a seed, and makes one that failed small."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Self

import asyncpg

from perdure._worker.columns import declare
from perdure.testing.exploring.explorer import quiet
from perdure.testing.exploring.scenario import Finding, Scenario
from perdure.testing.exploring.scenarios import shrink
from perdure.testing.exploring.sql_clock import virtual
from perdure.testing.exploring.sql_explorer import prepare
from perdure.testing.exploring.sql_sessions import Postgres
from perdure.testing.exploring.subject import Subject
from perdure.testing.exploring.world import LONGEST
from tests.applications.web_jobs.families.scenario import FamilyScenario, smaller
from tests.applications.web_jobs.families.world import FamilyWorld
from workers.web_jobs.app import app
from workflows.web_jobs.web_job import WebJob

_RANDOM = "select pg_get_functiondef(oid) as text from pg_proc where prosrc like '%gen_random_uuid()%'"
TABLES = Path(__file__).parents[4] / "activities" / "web_jobs" / "tables.sql"


class FamilyExplorer:
    """Explores families; a context manager.

    Args:
        url: an empty database, which is prepared. All that it holds is deleted by each scenario.
    """

    def __init__(self, url: str) -> None:
        self._postgres = Postgres(url, LONGEST)
        self._subject = Subject("web-job", {1: app}, {})
        asyncio.run(_prepare(url))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._postgres.close()

    def play(self, one: FamilyScenario, covered: Counter[tuple[str, str]] | None = None) -> list[Finding]:
        """What a scenario shows; `covered` counts each (place, event) in it."""
        return self.world(one, covered).findings

    def world(self, one: FamilyScenario, covered: Counter[tuple[str, str]] | None = None) -> FamilyWorld:
        """The world in which a scenario was played, as it is at the end."""
        world = FamilyWorld(self._subject, one, Counter() if covered is None else covered, self._postgres)
        with quiet():
            world.play()
        return world

    def smallest(self, failed: FamilyScenario, kind: str, *, most: int = 150) -> FamilyScenario:
        """The smallest scenario that was found to show the same kind of thing as `failed`."""

        def fails(other: Scenario) -> bool:
            assert isinstance(other, FamilyScenario)
            return [each.kind for each in self.play(other)[:1]] == [kind]

        found = shrink(failed, fails, most=most, smaller=smaller)
        assert isinstance(found, FamilyScenario)
        return found


async def _prepare(url: str) -> None:
    await prepare(url)
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(TABLES.read_text())
        await declare(connection, {"web-job": WebJob.mirror})
        for row in await connection.fetch(_RANDOM):  # else the same seed would not play the same bytes
            await connection.execute(virtual(row["text"]))
    finally:
        await connection.close()
