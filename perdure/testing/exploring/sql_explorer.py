"""Explores on PostgreSQL: prepares a database, plays the scenario of a seed, and makes one that failed small."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Self

import asyncpg

from perdure._store import schema
from perdure.testing.exploring.explorer import quiet
from perdure.testing.exploring.random_lifecycles import random_lifecycles
from perdure.testing.exploring.scenario import Finding, Scenario
from perdure.testing.exploring.scenarios import shrink
from perdure.testing.exploring.scripts import script_of
from perdure.testing.exploring.sql_clock import install
from perdure.testing.exploring.sql_scenarios import SqlScenario, lines_of, smaller, sql_scenario
from perdure.testing.exploring.sql_sessions import Postgres
from perdure.testing.exploring.sql_world import SqlWorld
from perdure.testing.exploring.world import LONGEST
from perdure.testing.server import START


class SqlExplorer:
    """Explores random lifecycles on PostgreSQL; a context manager.

    Args:
        url: an empty database, which is prepared. All that its schema `perdure` holds is deleted by each scenario.
    """

    def __init__(self, url: str) -> None:
        self._postgres = Postgres(url, LONGEST)
        self._subject = random_lifecycles()
        asyncio.run(prepare(url))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._postgres.close()

    def scenario(self, seed: int) -> SqlScenario:
        """The scenario of a seed."""
        return sql_scenario(seed)

    def play(self, one: SqlScenario, covered: Counter[tuple[str, str]] | None = None) -> list[Finding]:
        """The findings of a scenario; `covered` counts each (place, event) in it."""
        return self.world(one, covered).findings

    def world(self, one: SqlScenario, covered: Counter[tuple[str, str]] | None = None) -> SqlWorld:
        """The world in which a scenario was played, as it is at the end."""
        world = SqlWorld(self._subject, one, Counter() if covered is None else covered, self._postgres)
        with quiet():
            world.play()
        return world

    def smallest(self, failed: SqlScenario, kind: str, *, most: int = 150) -> SqlScenario:
        """The smallest scenario that was found to show the same kind of thing as `failed`."""

        def fails(other: Scenario) -> bool:
            assert isinstance(other, SqlScenario)
            return [each.kind for each in self.play(other)[:1]] == [kind]

        found = shrink(failed, fails, most=most, smaller=smaller)
        assert isinstance(found, SqlScenario)
        return found


def script(one: SqlScenario) -> str:
    """The events, line by line."""
    return "\n".join((script_of(one), *lines_of(one)))


async def prepare(url: str) -> None:
    """Give an empty database the schema, on the virtual clock."""
    connection = await asyncpg.connect(url)
    try:
        await schema.migrate(connection)
        await install(connection, START)
    finally:
        await connection.close()
