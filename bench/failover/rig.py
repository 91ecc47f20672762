"""The servers, workers and the outside server that a fault happens to."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg

from bench.failover.judge import Charge, Judged, judge
from bench.failover.load import Load
from bench.peers import shop
from bench.peers.other_side import OtherSide, serve
from bench.peers.rig import TABLE
from bench.polling import eventually
from infra.clusters import Cluster
from infra.temporal_server import TemporalOnPostgres
from perdure import database
from perdure.servers.guard import GuardedProcess
from perdure.servers.ports import free_port

APP = "bench.peers.with_perdure"
DATABASE = "shop"
_ENDED = """
    select id, coalesce(extract(epoch from charged_at), 0)::float8 as at from orders
"""


@dataclass
class Rig:
    """What runs. Made by `rig`.

    Attributes:
        primary: the application's PostgreSQL.
        temporal: the real server, on a PostgreSQL of its own.
        hosts: ports of the PostgreSQL servers that application and workers may find the primary at.
        workers: their processes, in the order of their starts.
    """

    folder: Path
    primary: Cluster
    temporal: TemporalOnPostgres
    side: OtherSide
    side_port: int
    hosts: list[int]
    until: AsyncExitStack
    workers: list[GuardedProcess] = field(default_factory=list)

    def dsn(self, *ports: int) -> str:
        """The URL of the application's database, on whichever of the servers is the primary."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports or self.hosts)
        return f"postgresql://postgres@{hosts}/{DATABASE}?target_session_attrs=primary"

    async def worker(
        self, *, app: str = APP, dsn: str = "", temporal: str = "", cwd: str | None = None, **more: str
    ) -> GuardedProcess:
        """Start a worker, and wait until it runs.

        Args:
            app: the module of its lifecycles.
            dsn: where it finds the database, if through a proxy.
            temporal: where it finds Temporal, if through a proxy.
            cwd: where it runs.
            more: further variables of its environment.
        """
        log = self.folder / f"worker-{len(self.workers)}.log"
        environment = os.environ | {
            "PERDURE_DATABASE_URL": dsn or self.dsn(),
            "TEMPORAL_ADDRESS": temporal or self.temporal.address,
            "SHOP_URL": f"http://127.0.0.1:{self.side_port}",
            "SHOP_SIDE": "look-up",
            "PERDURE_LOG": "text",
            **more,
        }
        command = (sys.executable, "-m", "perdure.cli", "worker", app)
        process = GuardedProcess(command, ask=signal.SIGTERM, log=log, env=environment, cwd=cwd)
        self.until.callback(process.kill)
        self.workers.append(process)
        await eventually(lambda: "perdure.worker: running" in log.read_text(errors="replace"), f"a worker, see {log}")
        return process

    async def hold_calls(self, count: int) -> None:
        """Hold every reply from now on, until so many calls are under way."""
        self.side.hold("reply-held")
        await eventually(lambda: self.side.waiting >= count, "calls that are under way")

    async def judged(self, load: Load, fault: float) -> Judged:
        """Wait until every order that has a row is charged and shows that, and judge what happened."""
        connection = await asyncpg.connect(self.dsn(), command_timeout=60)
        try:
            open_ones = "select count(*) = 0 from orders where state <> 'charged'"
            await eventually(lambda: connection.fetchval(open_ones), "the end of all orders")
            ended = {row["id"]: row["at"] for row in await connection.fetch(_ENDED)}
        finally:
            connection.terminate()
        charges = [Charge(each.order, each.at) for each in self.side.charges]
        return judge(fault, load.acknowledged, charges, ended)


@asynccontextmanager
async def rig(folder: Path, temporal_settings: Mapping[str, object] | None = None) -> AsyncIterator[Rig]:
    """Servers and outside server, for as long as the context lasts; no worker runs yet."""
    async with AsyncExitStack() as until:
        primary = Cluster(folder / "primary")  # durable: every commit is written through
        until.callback(primary.close)
        await asyncio.to_thread(primary.start)
        temporal = TemporalOnPostgres(dynamic_config=temporal_settings)
        until.callback(temporal.close)
        await asyncio.to_thread(temporal.start)
        side, port = OtherSide(), free_port()
        side.window, side.lag = 0.0, shop.LAG.total_seconds()
        until.push_async_callback((await serve(port, side)).cleanup)
        await _prepare(primary)
        yield Rig(folder, primary, temporal, side, port, [primary.port], until)


async def _prepare(primary: Cluster) -> None:
    admin = await asyncpg.connect(primary.dsn())
    await admin.execute(f"create database {DATABASE}")
    await admin.close()
    connection = await asyncpg.connect(primary.dsn(DATABASE))
    await database.migrate(connection)
    await connection.execute(TABLE)
    await connection.close()
