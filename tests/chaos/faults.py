"""Does to processes and connections what the plan says, and puts everything right again afterwards."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import asyncpg

from infra.temporal_server import TemporalOnPostgres
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalError, TemporalServer
from perdure.testing.proxy import Proxy
from tests.chaos.fleet import Fleet
from tests.chaos.plan import DELAY, OF_TEMPORAL, TO_POSTGRES, Fault, Plan
from tests.chaos.retrying import EXPECTED_ERRORS
from tests.deadline import DEADLINE

START = 300.0
"""Seconds that a server may take until it serves: on a busy machine, with all that waits for it."""
PATIENCE = 5.0
"""Seconds in which a relay is to begin a transaction, where one has something to deliver."""
_MOVED = """
    select exists (select from perdure.transition where at > $1)
        or not exists (select from perdure.entity where lifecycle <> 'counter')
"""
_IN_TRANSACTION = """
    select client_port from pg_stat_activity
    where application_name = 'perdure' and state = 'idle in transaction' and query ~ 'perdure.(outbox|message)'
"""


@dataclass(frozen=True, slots=True)
class Happened:
    """A fault that was inflicted; `begun` and `over` on the clock of `time.time`."""

    fault: Fault
    begun: float
    over: float


class Faults:
    """Inflicts them, each in its own time; one victim is hit by one at a time.

    Args:
        dsn: the application's database.

    Attributes:
        happened: what was inflicted so far.
        proxies: by the name of the way that they are on.
    """

    def __init__(
        self,
        fleet: Fleet,
        postgres: PostgresServer,
        temporal: TemporalOnPostgres,
        proxies: dict[str, Proxy],
        dsn: str,
    ) -> None:
        self.happened: list[Happened] = []
        self.proxies = proxies
        self._fleet, self._dsn = fleet, dsn
        self._postgres, self._temporal = postgres, temporal
        self._hit: dict[str, list[PostgresServer | TemporalServer]] = {
            "PostgreSQL": [postgres],
            "Temporal": [temporal],
            "Temporal's PostgreSQL": [temporal.postgres],
            "Temporal and its PostgreSQL": [temporal, temporal.postgres],
        }
        self._busy: dict[str, asyncio.Lock] = {}
        self._over: dict[str, datetime] = {}
        """When each victim was hit last."""
        self._ways: dict[str, Callable[[Fault], Awaitable[None]]] = {
            "worker killed": self._end_worker,
            "worker stopped": self._end_worker,
            "worker frozen": self._freeze_worker,
            "worker's host lost": self._lose_host,
            "connections cut": self._cut,
            "connections delayed": self._delay,
            "connections frozen": self._freeze,
            "connections half-closed": self._half_close,
            "connections lost in silence": self._lose,
            "connections lost in a transaction": self._lose_transaction,
        }

    async def run(self, plan: Plan, began: float) -> None:
        """Inflict all of them; returns when the last one is over and every server runs."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as breaking:
            for fault in plan.faults:
                await asyncio.sleep(began + fault.at - loop.time())
                breaking.create_task(self._inflict(fault))
        await self.heal()

    async def heal(self) -> None:
        """See to it that every server runs and every connection works."""
        for proxy in self.proxies.values():
            proxy.delay(0.0)
            proxy.thaw()
        for server in (self._postgres, self._temporal.postgres, self._temporal):
            await asyncio.to_thread(server.start, timeout=START)

    async def supervise(self) -> None:
        """Start Temporal again when it has ended by itself: it does so if its database is away soon after its start."""
        while True:
            async with self._lock("Temporal"):
                if not self._temporal.running:
                    with suppress(TemporalError):
                        await asyncio.to_thread(self._temporal.start, timeout=START)
            await asyncio.sleep(0.5)

    def _lock(self, victim: str) -> asyncio.Lock:
        # While Temporal starts, it reaches its database.
        return self._busy.setdefault("Temporal" if victim == OF_TEMPORAL else victim, asyncio.Lock())

    async def _inflict(self, fault: Fault) -> None:
        async with self._lock(fault.victim):
            if (over := self._over.get(fault.victim)) is not None:
                await self._until_moved(over)
            begun = time.time()
            await self._ways.get(fault.kind, self._end_servers)(fault)
            self.happened.append(Happened(fault, begun, time.time()))
            self._over[fault.victim] = datetime.now(UTC)

    async def _until_moved(self, since: datetime) -> None:
        """Let a lifecycle move, if one can, before the same victim is hit again: on a busy machine a server may need
        longer until it works than the plan has between two faults."""
        with suppress(*EXPECTED_ERRORS):
            async with asyncio.timeout(DEADLINE):
                connection = await asyncpg.connect(self._dsn)
                try:
                    while not await connection.fetchval(_MOVED, since):
                        await asyncio.sleep(0.1)
                finally:
                    connection.terminate()

    async def _end_worker(self, fault: Fault) -> None:
        number = signal.SIGKILL if fault.kind.endswith("killed") else signal.SIGTERM
        await self._fleet.slots[fault.victim].end(number, fault.seconds)
        await asyncio.sleep(fault.seconds)

    async def _freeze_worker(self, fault: Fault) -> None:
        await self._fleet.slots[fault.victim].freeze(fault.seconds)

    async def _end_servers(self, fault: Fault) -> None:
        whose, _, how = fault.kind.rpartition(" ")
        for server in self._hit[whose]:
            await asyncio.to_thread(server.kill if how == "killed" else server.stop)
        await asyncio.sleep(fault.seconds)
        for server in reversed(self._hit[whose]):
            await asyncio.to_thread(server.start, timeout=START)

    async def _cut(self, fault: Fault) -> None:
        self.proxies[fault.victim].cut()

    async def _lose(self, fault: Fault) -> None:
        """What is sent on them is swallowed for ever, and nobody resets them. New connections work after a while."""
        proxy = self.proxies[fault.victim]
        proxy.freeze(new_ones=True)
        await asyncio.sleep(fault.seconds)
        proxy.thaw()

    async def _lose_transaction(self, fault: Fault) -> None:
        """The same for one that has claimed rows, and now waits for Temporal; none where nothing is delivered."""
        with suppress(*EXPECTED_ERRORS):
            async with asyncio.timeout(PATIENCE):
                self.proxies[TO_POSTGRES].freeze(only=await self._in_transaction())

    async def _in_transaction(self) -> list[int]:
        connection = await asyncpg.connect(self._postgres.dsn())
        try:
            while not (rows := await connection.fetch(_IN_TRANSACTION)):
                await asyncio.sleep(0.01)
            return [row["client_port"] for row in rows]
        finally:
            connection.terminate()

    async def _lose_host(self, fault: Fault) -> None:
        """The process is gone, and nobody ends its connections; another host takes over."""
        slot = self._fleet.slots[fault.victim]
        ports = await slot.stand_still()
        for proxy in self.proxies.values():
            proxy.freeze(only=ports)
        await slot.end(signal.SIGKILL, fault.seconds)
        await asyncio.sleep(fault.seconds)

    async def _half_close(self, fault: Fault) -> None:
        self.proxies[fault.victim].half_close()

    async def _delay(self, fault: Fault) -> None:
        self.proxies[fault.victim].delay(DELAY)
        await asyncio.sleep(fault.seconds)
        self.proxies[fault.victim].delay(0.0)

    async def _freeze(self, fault: Fault) -> None:
        """As if a cable were pulled; at the end those that hang are reset, as a router does that lost them."""
        proxy = self.proxies[fault.victim]
        proxy.freeze(new_ones=True)
        await asyncio.sleep(fault.seconds)
        proxy.thaw()
        proxy.cut()
