"""Real relays, of one or several builds, on the virtual loop: they deliver what the application commits."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from perdure._reconcile.recovery.recovery import recover
from perdure._services.relay import Relay
from perdure._services.service import EXPECTED_ERRORS
from perdure.settings import Settings
from perdure.testing.exploring.sql_acts import PLACES, Act
from perdure.testing.exploring.sql_client import VirtualClient

if TYPE_CHECKING:
    from perdure.app import App
    from perdure.contracts.keys import Entity
    from perdure.testing.exploring.database import Row
    from perdure.testing.exploring.sql_database import SqlDatabase
    from perdure.testing.exploring.sql_sessions import VirtualSession
    from perdure.testing.exploring.sql_world import SqlWorld

T = TypeVar("T")

_SHORTEST_PAUSE = 0.03
_LONGEST_PAUSE = 320.0
_TOO_LONG = 3 * 3600.0
"""Virtual seconds after which a row that is due, and was not delivered, stands for a relay that has stopped."""
_PATIENCE = 300.0
"""Virtual seconds of vain deliveries after which, and between which, somebody looks for workflows that are gone."""
_NEXT = "select min(not_before) from perdure.outbox"
_WORKFLOW_GONE = (
    "select e.lifecycle, e.id, e.generation, i.version from perdure.entity e join perdure.ident i using (lifecycle, "
    "id) where not exists (select from perdure.outbox o where o.lifecycle = e.lifecycle "
    "and o.id = e.id and o.kind = 'start') "
    "order by e.lifecycle, e.id"
)


current_relay: contextvars.ContextVar[RelayProcess] = contextvars.ContextVar("relay")


def reached(place: str) -> None:
    """The function that `perdure._faults` calls."""
    if place in PLACES and (relay := current_relay.get(None)) is not None:
        relay.reached(place)


class SimulatedCrash(BaseException):
    """The process of a relay does not exist any more."""


class Relays:
    """All relays of a world, and those who start again what is gone."""

    def __init__(self, world: SqlWorld) -> None:
        self._world = world
        self._all: list[RelayProcess] = []
        self._recovering = False
        self.recovered_at: float = 0.0
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def alive(self) -> list[RelayProcess]:
        """Those that run."""
        return [each for each in self._all if each.alive]

    def start_one(self, build: int) -> None:
        """One more relay."""
        process = RelayProcess(self._world, self, f"relay-{len(self._all)}", build)
        self._all.append(process)
        self.keep(process.run())

    def start(self, entity: Entity, given: Any) -> None:
        """The application commits a start."""
        self.keep(self._world.applications.start(entity.lifecycle, entity.id, given, Act(0.0, "start")))

    def nudge(self) -> None:
        """Something may be in the outbox."""
        for each in self._all:
            each.nudged.set()

    def recover(self) -> None:
        """Start again what has no open workflow, as operators and reconciliation do."""
        if not self._recovering:
            self._recovering = True
            self.keep(self._recover())

    def send(self, row: Row, more: str = "") -> None:
        """The application commits a message; `more` is added to its text."""
        self.keep(self._world.applications.message(row.entity.id, more=more))

    async def start_by_step(self, entity: Entity, given: Any) -> None:
        """See `RelayRoom`."""
        applications, act = self._world.applications, self._world.applications.act_of_step("start")
        await self._by_step(applications.start(entity.lifecycle, entity.id, given, act))

    async def send_by_step(self, entity_id: str, text: str) -> None:
        """See `RelayRoom`."""
        applications, act = self._world.applications, self._world.applications.act_of_step("message")
        await self._by_step(applications.message(entity_id, act, text=text))

    async def _by_step(self, work: Coroutine[Any, Any, bool]) -> None:
        """Let the application, which is no part of the worker, do it, and wait for its answer."""
        if not await asyncio.shield(self._task(work, contextvars.Context())):
            raise RuntimeError("the application did not commit it")

    def send_again(self, row: Row) -> None:
        """What is delivered next is delivered twice, since the relay crashes before its commit."""
        self._world.crash_next = True

    def keep(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do it beside all else. It may fail as the outside world does, and in no other way."""
        self._task(work).add_done_callback(self._has_ended)

    def _has_ended(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, EXPECTED_ERRORS):
            self._world.found("a part of the simulation fails", f"{type(error).__name__}: {error}")

    def _task(self, work: Coroutine[Any, Any, T], context: contextvars.Context | None = None) -> asyncio.Task[T]:
        task = self._world.loop.create_task(work, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _recover(self) -> None:
        world = self._world
        try:
            for _ in range(20):
                try:
                    await recover(_ReadPool(world.database), VirtualClient(world.frontend), None, by="ops", why="gone")  # type: ignore[arg-type]
                    await self._start_closed_again()
                    break
                except EXPECTED_ERRORS:
                    await asyncio.sleep(5.0)
        finally:
            self._recovering = False
            self.recovered_at = world.loop.time()
        self.nudge()

    async def _start_closed_again(self) -> None:
        """Treat a terminated workflow as the reconciliation does."""
        world = self._world
        for row in await world.database.sessions.fetch(_WORKFLOW_GONE):
            execution = world.temporal.executions.get(f"{row['lifecycle']}/{row['id']}")
            if execution is not None and not execution.open and execution.outcome == "terminated":
                given = row["lifecycle"], row["id"], row["generation"], row["version"]
                await world.database.sessions.fetch("select perdure.start_again($1, $2, $3, $4, 'ops', 'gone')", *given)


@cache
def _settings() -> Settings:
    return Settings(relay_poll_interval=_SHORTEST_PAUSE)


class RelayProcess:
    """One relay; it can be killed at each of its steps."""

    def __init__(self, world: SqlWorld, relays: Relays, name: str, build: int) -> None:
        self._world, self._relays = world, relays
        self.build: int = build
        self.alive: bool = True
        self.nudged: asyncio.Event = asyncio.Event()
        self._app: App = world.subject.builds[build]
        client: Any = VirtualClient(world.frontend)
        pool: Any = _RelayPool(world.database, self)
        self._relay = Relay(pool, client, self._app, _settings(), id=name)
        self._pause = _SHORTEST_PAUSE
        self._vain_since: float | None = None

    def kill(self) -> None:
        """SIGKILL: its transaction is rolled back, and what it has delivered stays delivered."""
        if self.alive:
            self.alive = False
            self.nudged.set()
            self._world.loop.call_later(2.0, self._relays.start_one, self.build)

    def check(self) -> None:
        """Raise `SimulatedCrash` if the process was killed."""
        if not self.alive:
            raise SimulatedCrash

    def reached(self, place: str) -> None:
        """It comes to a place at which it may crash."""
        if self.alive and self._world.relay_crashes(place):
            self.kill()
        self.check()

    async def run(self) -> None:
        """Deliver until the relay is killed."""
        current_relay.set(self)
        while self.alive:
            self.nudged.clear()
            before, more = self._relay.delivered, False
            try:
                more = await self._relay.once()
            except SimulatedCrash:
                return
            except EXPECTED_ERRORS as error:
                self._world.cover("relay", type(error).__name__)
                self._check(error)
            except Exception as error:
                self._world.found("a bug in a relay", f"{type(error).__name__}: {error}")
                return
            if self._relay.delivered > before:
                self._pause, self._vain_since = _SHORTEST_PAUSE, None
            try:
                if not await self._rest(more):
                    return
            except EXPECTED_ERRORS as error:  # the simulation's own session is lost
                self._world.cover("relay", type(error).__name__)
                await asyncio.sleep(_SHORTEST_PAUSE)

    def _check(self, error: BaseException) -> None:
        """An error that the schema or a query raises is no fault of the outside world's."""
        state = getattr(error, "sqlstate", None) or ""
        if state and not state.startswith(("08", "40", "55", "57")):
            self._world.found("a bug in a relay", f"{type(error).__name__}: {error}")

    async def _rest(self, more: bool) -> bool:
        """Wait until there may be something to do; False if there is no sense in that."""
        world = self._world
        if more:
            await asyncio.sleep(0.01)
            return True
        due = (await world.database.sessions.fetch(_NEXT))[0][0]
        if due is None:
            self._pause, self._vain_since = _SHORTEST_PAUSE, None
            await self._asleep(None)
            return True
        wait = (due - world.loop.now).total_seconds()
        if wait > 60:
            await self._asleep(wait if wait < _TOO_LONG else None)
            return True
        if self._vain_since is None:
            self._vain_since = world.loop.time()
        vain = world.loop.time() - max(self._vain_since, world.healed_at)
        if vain > _TOO_LONG:
            world.found("a row is never delivered", await self._waiting())
            return False
        if min(vain, world.loop.time() - self._relays.recovered_at) > _PATIENCE:
            self._relays.recover()
        await self._asleep(max(self._pause, wait))
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        return True

    async def _asleep(self, seconds: float | None) -> None:
        """Do nothing, in place of looking into the outbox all the time: the others count it as one that runs."""
        try:
            await asyncio.wait_for(self.nudged.wait(), seconds)
        except TimeoutError:
            if seconds is None or seconds < 5:
                return
        else:
            self._pause = _SHORTEST_PAUSE
        await self._world.database.sessions.fetch(
            "update perdure.relay set seen_at = sim.clock() where id = any($1)",
            [each._relay.presence.id for each in self._relays.alive],
        )

    async def _waiting(self) -> str:
        rows = await self._world.database.sessions.fetch(
            "select lifecycle, id, generation, kind, tries, error, declined from perdure.outbox order by seq limit 5"
        )
        return "; ".join(str(dict(row)) for row in rows)


class _RelayPool:
    """The part of a pool that a relay uses."""

    def __init__(self, database: SqlDatabase, process: RelayProcess) -> None:
        self._database, self._process = database, process

    @asynccontextmanager
    async def acquire(self, *, timeout: float | None = None) -> AsyncIterator[VirtualSession]:
        self._process.check()
        await self._database.arrives()
        async with self._database.sessions.lent() as session:
            yield session
            self._process.check()


class _ReadPool:
    """The part of a pool that the recovery uses."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        await self._database.arrives()
        return await self._database.sessions.fetch(query, *args)

    async def fetchval(self, query: str, *args: Any) -> Any:
        return (await self.fetch(query, *args))[0][0]

    @asynccontextmanager
    async def acquire(self, *, timeout: float | None = None) -> AsyncIterator[VirtualSession]:
        await self._database.arrives()
        async with self._database.sessions.lent() as session:
            yield session
