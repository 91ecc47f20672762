"""The faults. Each is given a rig with two workers and orders under way, and returns when it has happened."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import asyncpg

from bench.failover.rig import DATABASE, Rig
from bench.polling import eventually
from infra.clusters import Cluster, base_backup
from perdure.testing.proxy import Proxy, proxied

LAG = 0.2
"""Seconds that the asynchronous standby is behind, by a proxy that holds what the primary sends."""

KEEPALIVE = {"frontend.keepAliveTime": "5s", "frontend.keepAliveTimeout": "3s"}
"""By default, Temporal finds a dead connection after a minute, and gives tasks to its pollers until then."""

_IN_SYNC = "select bool_or(sync_state = 'sync') from pg_stat_replication"
_STREAMS = "select bool_or(state = 'streaming') from pg_stat_replication"


@dataclass
class Fault:
    """One fault; `arrange` starts the workers, and whatever else the fault needs.

    Attributes:
        name: as the command names it.
        what: one line for the table.
        temporal_settings: of the Temporal server, beside its defaults.
    """

    name: str
    what: str
    arrange: Callable[[Rig], Awaitable[None]]
    happen: Callable[[Rig], Awaitable[float]]
    temporal_settings: Mapping[str, object] = field(default_factory=dict)


async def two_workers(rig: Rig) -> None:
    """Start two, side by side."""
    await asyncio.gather(rig.worker(), rig.worker())


async def kill_worker(rig: Rig) -> float:
    """SIGKILL for one of the two."""
    fault = time.time()
    rig.workers[0].kill()
    return fault


@dataclass
class _Vanishing:
    """The proxies of the host that is to vanish."""

    proxies: list[Proxy] = field(default_factory=list)

    async def arrange(self, rig: Rig) -> None:
        """Start one worker behind proxies, and one beside it."""
        temporal = int(rig.temporal.address.rpartition(":")[2])
        self.proxies = [await rig.until.enter_async_context(proxied(port)) for port in (rig.primary.port, temporal)]
        database, server = (proxy.port for proxy in self.proxies)
        await rig.worker(dsn=rig.dsn(database), temporal=f"127.0.0.1:{server}")
        await rig.worker()

    async def happen(self, rig: Rig) -> float:
        """The process is gone, and no packet closes its connections: the servers keep them open."""
        fault = time.time()
        for proxy in self.proxies:
            proxy.freeze(new_ones=True)
        rig.workers[0].kill()
        return fault


@dataclass
class _FailingOver:
    """A streaming standby that takes over."""

    synchronous: bool
    standby: Cluster | None = None

    async def arrange(self, rig: Rig) -> None:
        """Start the standby, then two workers that find whichever server is the primary."""
        self.standby = await asyncio.to_thread(base_backup, rig.primary, rig.folder, "standby", standby=True)
        if not self.synchronous:
            proxy = await rig.until.enter_async_context(proxied(rig.primary.port))
            proxy.delay(LAG)
            with (self.standby.data_directory / "postgresql.auto.conf").open("a") as settings:
                settings.write(f"primary_conninfo = 'host=127.0.0.1 port={proxy.port} user=postgres'\n")
        rig.until.callback(self.standby.close)
        await asyncio.to_thread(self.standby.start)
        admin = await asyncpg.connect(rig.primary.dsn(DATABASE))
        if self.synchronous:
            await admin.execute("alter system set synchronous_standby_names = '*'")
            await admin.execute("select pg_reload_conf()")
        question = _IN_SYNC if self.synchronous else _STREAMS
        await eventually(lambda: _true(admin, question), "a standby that follows")
        await admin.close()
        rig.hosts.append(self.standby.port)
        await two_workers(rig)

    async def happen(self, rig: Rig) -> float:
        """The primary is killed, and the standby promoted at once: whoever decides that takes time of their own."""
        assert self.standby is not None
        fault = time.time()
        await asyncio.to_thread(rig.primary.kill)
        await asyncio.to_thread(self.standby.promote)
        return fault


async def restart_temporal(rig: Rig) -> float:
    """SIGKILL for the Temporal server, and a start."""
    fault = time.time()
    await asyncio.to_thread(rig.temporal.kill)
    await asyncio.to_thread(rig.temporal.start)
    return fault


async def _true(connection: asyncpg.Connection, question: str) -> bool:
    return bool(await connection.fetchval(question))


def faults() -> list[Fault]:
    """All, in the order of the table."""
    vanishing, synchronous, asynchronous = _Vanishing(), _FailingOver(synchronous=True), _FailingOver(synchronous=False)
    return [
        Fault("worker-killed", "one of two workers is killed", two_workers, kill_worker),
        Fault(
            "host-vanished",
            "one of two workers vanishes, and its connections stay open",
            vanishing.arrange,
            vanishing.happen,
        ),
        Fault(
            "host-vanished-keepalive",
            "the same, with the keepalive of Temporal's frontend at 5 s",
            vanishing.arrange,
            vanishing.happen,
            KEEPALIVE,
        ),
        Fault(
            "postgres-synchronous",
            "PostgreSQL is killed; a synchronous standby takes over",
            synchronous.arrange,
            synchronous.happen,
        ),
        Fault(
            "postgres-asynchronous",
            f"PostgreSQL is killed; a standby that is {LAG} s behind takes over",
            asynchronous.arrange,
            asynchronous.happen,
        ),
        Fault("temporal-killed", "Temporal is killed, and started again", two_workers, restart_temporal),
    ]
