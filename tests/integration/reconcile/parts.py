"""A reconciliation's ground, for tests that call its parts directly."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import temporalio.client

from perdure import App, Entity
from perdure._reconcile.context import Context
from perdure._reconcile.findings import Findings
from perdure._store.connecting import Pool, open_pool
from tests.world import World

Part: TypeAlias = Callable[[Context, object], Awaitable[None]]
Found: TypeAlias = "tuple[str, str | None, bool]"


@dataclass
class Sweep:
    """Runs parts of a reconciliation on a world."""

    world: World
    pool: Pool
    app: App
    beats: list[object] = field(default_factory=list)

    async def ground(
        self, *, grace: float = 0, only: Entity | None = None, temporal_client: temporalio.client.Client | None = None
    ) -> Context:
        """What a new reconciliation would be given."""
        since = "select clock_timestamp() - make_interval(secs => $1)"
        run = await self.world.db.fetchval(
            "insert into perdure.reconciliation (asked_by) values ('a test') returning run"
        )
        return Context(
            pool=self.pool,
            temporal_client=temporal_client or self.world.temporal_client,
            app=self.app,
            settings=self.world.config,
            findings=Findings(self.pool, run),
            younger_than=await self.world.db.fetchval(since, float(grace)),
            only=only,
            beat=self.beats.append,
        )

    async def run(self, part: Part, *, cursor: object = None, **options: Any) -> list[Found]:
        """Run it; what this one reconciliation found: kind, entity id, and whether it was mended."""
        ground = await self.ground(**options)
        await part(ground, cursor)
        rows = await self.world.db.fetch(
            "select kind, id, mended from perdure.finding where run = $1 order by kind, id, about", ground.findings._run
        )
        return [(row["kind"], row["id"] or None, row["mended"]) for row in rows]

    async def said(self, kind: str) -> str:
        """What was seen and what is advised, of the one finding of a kind."""
        row = await self.world.db.fetchrow("select what, advice from perdure.finding where kind = $1", kind)
        assert row is not None
        return f"{row['what']} | {row['advice']}"


@asynccontextmanager
async def sweeping(world: World, app: App) -> AsyncIterator[Sweep]:
    """A sweep with connections of its own."""
    pool = await open_pool(world.dsn, 4)
    try:
        yield Sweep(world, pool, app)
    finally:
        await pool.close()
