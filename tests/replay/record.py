"""Records this release: histories and wheel (`make histories`). What an earlier release left is never touched."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import asyncpg

from perdure._store import schema
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.replay.scenarios import SCENARIOS, Scenario
from tests.world import World

RELEASES = Path(__file__).parents[1] / "releases"
"""What each release left behind: its wheel, and the histories that it recorded."""


def release() -> str:
    """Version of the checkout."""
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    return next(line.split('"')[1] for line in project.splitlines() if line.startswith("version"))


async def record(scenario: Scenario, postgres: PostgresServer, temporal: TemporalServer, folder: Path) -> None:
    """Play one scenario and write the histories of its runs, oldest first."""
    from tests.apps.bodies import app

    with tempfile.TemporaryDirectory() as logs:
        async with World(postgres, temporal, "histories", Path(logs)).made(app) as world, world.worker(app):
            await scenario.play(world, scenario.lifecycle)
            runs = [each async for each in world.temporal_client.list_workflows(f"TaskQueue = '{world.config.queue}'")]
            for number, run in enumerate(sorted(runs, key=lambda each: each.start_time), start=1):
                handle = world.temporal_client.get_workflow_handle(run.id, run_id=run.run_id)
                history = (await handle.fetch_history()).to_json().replace(world.scope, "scope")
                # Without the name of the machine, which stands in identities and in sticky queues.
                history = re.sub(r'"identity": "[^"]*"', '"identity": "worker"', history)
                history = re.sub(r'"name": "[^"]*-[0-9a-f]{32}"', '"name": "sticky"', history)
                (folder / f"{scenario.name}.{number}.json").write_text(history + "\n")
            print(f"{scenario.name}: {len(runs)} run(s)", file=sys.stderr)
            await world.db.execute("truncate perdure.ident, perdure.entity, perdure.effect, perdure.database")
            await world.db.execute("insert into perdure.database default values")  # the next world has its own scope


def build(folder: Path) -> None:
    """Write the wheel of the checkout."""
    options = ("--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", str(folder))
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(RELEASES.parents[1])], check=True)


async def main() -> None:
    """Record every scenario, on servers of their own, and build the wheel."""
    folder = RELEASES / release() / "histories"
    folder.mkdir(parents=True, exist_ok=True)
    build(folder.parent)
    with PostgresServer(durable=False) as postgres, TemporalServer() as temporal:
        admin = await asyncpg.connect(postgres.dsn())
        await admin.execute("create database histories")
        await admin.close()
        connection = await asyncpg.connect(postgres.dsn("histories"))
        await schema.migrate(connection)
        await connection.execute("create table booking (id text primary key, state text)")
        await connection.close()
        for scenario in SCENARIOS:
            await record(scenario, postgres, temporal, folder)


if __name__ == "__main__":
    asyncio.run(main())
