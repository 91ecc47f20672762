"""A world of web jobs: their tables, pages that answer what they are told, and the application's own worker."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from activities.web_jobs.settings import web_settings
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.pages import Pages
from tests.world import World
from workers.web_jobs.app import app

TABLES = (Path(__file__).parents[3] / "activities" / "web_jobs" / "tables.sql").read_text()


class Jobs:
    """Everything that a test of web jobs needs.

    Attributes:
        world: database, engine and client.
        pages: the pages that the jobs call.
    """

    def __init__(self, world: World, pages: Pages) -> None:
        self.world = world
        self.pages = pages
        self.db: asyncpg.Connection[asyncpg.Record] = world.db

    async def type(self, name: str = "page", path: str | None = None, **columns: Any) -> None:
        """Add a job type whose page is at `path` of `pages`."""
        columns = {"name": name, "url": self.pages.origin + (path or f"/{name}"), **columns}
        names, places = ", ".join(columns), ", ".join(f"${n}" for n in range(1, len(columns) + 1))
        await self.db.execute(f"insert into web_job.type ({names}) values ({places})", *columns.values())

    async def insert(self, id: str = "1", type: str = "page", payload: Any = None, **params: Any) -> None:
        """Insert a job, which starts it."""
        await self.db.execute(
            "insert into web_job.job (id, type, params, payload) values ($1, $2, $3, $4)",
            *(id, type, json.dumps(params), None if payload is None else json.dumps(payload)),
        )

    async def ended(self, id: str = "1") -> str:
        """Wait for its final state, and return that."""
        return await self.world.ended("web-job", id)

    async def state(self, id: str = "1") -> str:
        """The state that its row shows."""
        return str(await self.db.fetchval("select state from web_job.job where id = $1", id))

    async def shows(self, id: str, state: str) -> None:
        """Wait until its row shows `state`."""

        async def so() -> bool:
            return await self.state(id) == state

        await self.world.until(so, f"the row of job {id} in {state!r}")

    async def why(self, id: str = "1") -> str | None:
        """Why it is in its state."""
        why: str | None = await self.db.fetchval(
            "select why from perdure.transition where lifecycle = 'web-job' and id = $1 "
            "order by generation desc, version desc limit 1",
            id,
        )
        return why

    async def effect_is(self, id: str, name: str, status: str) -> None:
        """Wait until the fence knows of an effect that it is so."""

        async def so() -> bool:
            return (await self.effects(id)).get(name) == status

        await self.world.until(so, f"{name} of job {id} {status}")

    async def effects(self, id: str = "1") -> dict[str, str]:
        """What the fence knows of its effects, by name."""
        rows = await self.db.fetch("select effect, status from perdure.effect where id = $1 order by first_at", id)
        return {row["effect"]: row["status"] for row in rows}


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    """Pages that answer what they are told."""
    async with Pages().serving() as serving:
        yield serving


@pytest.fixture
async def jobs(
    postgres: PostgresServer,
    temporal: TemporalServer,
    database: str,
    tmp_path: Path,
    pages: Pages,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Jobs]:
    """A world of web jobs, whose pages may be called."""
    monkeypatch.setenv("PERDURE_WEB_ORIGINS", pages.origin)
    monkeypatch.setenv("PERDURE_WEB_NETWORKS", "127.0.0.0/8")
    web_settings.cache_clear()  # a worker reads them once
    async with World(postgres, temporal, database, tmp_path).made(app) as world:
        await world.db.execute(TABLES)
        yield Jobs(world, pages)
    web_settings.cache_clear()
