"""One scenario of families, played on PostgreSQL to where all jobs are over, and judged."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from random import Random
from typing import Any
from unittest.mock import patch

from activities.web_jobs import asking, looking_up, turnstile
from activities.web_jobs.resources import Web
from activities.web_jobs.settings import web_settings
from perdure._activity.hosting import TemporalHost
from perdure._services import follower as following
from perdure._services.follower import Follower
from perdure._services.service import EXPECTED_ERRORS
from perdure._wire.writes import Answer, Write
from perdure.contracts.keys import Entity
from perdure.testing.exploring.database import Row
from perdure.testing.exploring.scenario import Event, Finding
from perdure.testing.exploring.sql_database import Borrowed, SqlDatabase, WorkerStore
from perdure.testing.exploring.sql_relays import Relays
from perdure.testing.exploring.sql_sessions import Postgres, VirtualSession
from perdure.testing.exploring.sql_world import Clock, SqlWorld
from perdure.testing.exploring.subject import Subject
from perdure.testing.exploring.workers import Worker, current_worker
from tests.applications.web_jobs.families.judge import judge
from tests.applications.web_jobs.families.operators import FamilyPeople, Operators
from tests.applications.web_jobs.families.pages import ORIGIN, Pages, Played
from tests.applications.web_jobs.families.scenario import TYPES, FamilyScenario

ENVIRONMENT = {
    "PERDURE_WEB_ORIGINS": ORIGIN,
    "PERDURE_WEB_CALLBACK_URL": f"{ORIGIN}/back",
    "PERDURE_WEB_CALLBACK_SECRET": "long enough to be a secret",
}
WITHIN = timedelta(minutes=10)
_ROUND = 120.0
"""Seconds between two rounds of the people who settle what waits for them."""
_ROUNDS = 60
_TABLES = ("job", "family", "refused_child", "callback", "type")
_KNOWN = "select id, round, final from perdure.ident where lifecycle = 'web-job' order by id"


class FamilyWorld(SqlWorld):
    """Plays one scenario of families.

    Args:
        subject: the application of web jobs.
        scenario: what happens.
        covered: counts each (place, event) that is seen.
        postgres: sessions with a database that `FamilyExplorer` has prepared.

    Attributes:
        pages: the other side of all jobs.
        operators: what apps and operators do.
    """

    scenario: FamilyScenario
    database: FamilyDatabase
    people: FamilyPeople

    def __init__(
        self, subject: Subject, scenario: FamilyScenario, covered: Counter[tuple[str, str]], postgres: Postgres
    ) -> None:
        super().__init__(subject, scenario, covered, postgres)
        self.pages = Pages(self, scenario.pages)
        self.operators = Operators(self)
        self.people = FamilyPeople(self)
        self._webs: dict[str, Web] = {}

    def rooms(self) -> tuple[SqlDatabase, Relays]:
        """See base class."""
        return FamilyDatabase(self, self._postgres), Relays(self)

    def play(self, entity: Entity | None = None) -> list[Finding]:
        """See base class."""
        with _played(self):
            return super().play(entity)

    def _play(self, entity: Entity) -> None:
        self.database.do(self.database.open())
        self.database.do(self._add_types())
        for build in self.scenario.relays:
            self.relay.start_one(build)
        for _ in self.scenario.builds:
            self.start_worker()
        self.keep(self.database.follower.run())
        for job in self.scenario.jobs:
            self.loop.call_later(job.at, self.operators.insert, job)
        for act in self.scenario.operations:
            self.loop.call_later(act.at, self.operators.do, act)
        for event in self.scenario.events:
            self.loop.call_later(event.at, self._event, event)
        ends = [each.at + each.seconds for each in self.scenario.operations]
        ends += [each.at + each.seconds for each in self.scenario.events]
        self.healed_at = max([5.0, *ends]) + 1.0
        self.loop.call_later(self.healed_at, self._heal)
        self._run()
        if not self.findings:
            self.findings += self.database.do(judge(self))

    def _heal(self) -> None:
        self.relay.start_one(1)
        self.start_worker(1)
        self.keep(self._attend())

    async def _attend(self) -> None:
        """Look after all jobs until they are over."""
        still: list[Entity] = []
        await self.operators.enable()
        for _ in range(_ROUNDS):
            await asyncio.sleep(_ROUND)
            await self.database.read()
            still = [each.entity for each in self.database.rows.values() if not self.is_over(each.entity)]
            if self.findings or not (still or self.operators.busy or await self.database.behind()):
                break
            for entity in still:
                self.people.look_after(entity)
        else:
            self.found(
                "never ends", f"{still or 'operators'} after {self.loop.time():.0f} s: {await self.database.why(still)}"
            )
        self.loop.stop()

    def _event(self, event: Event) -> None:
        async def happens() -> None:
            await self.database.read()
            if rows := sorted(self.database.rows):
                self.incidents.happen_to(self.random.choice(rows), event)

        self.keep(happens())

    async def _add_types(self) -> None:
        async with self.database.sessions.lent() as session:
            for name, given in TYPES.items():
                status_url = f"{ORIGIN}/status{{?key}}" if given["doubt"] == "lookup" else None
                columns = {
                    "name": name,
                    "url": f"{ORIGIN}/call/{name}",
                    "within": WITHIN,
                    "visibility_delay": timedelta(seconds=5),
                    "status_url": status_url,
                    "children": list(TYPES),
                    **given,
                    "timeout": timedelta(seconds=given.get("timeout", 2)),
                    "remembers": timedelta(hours=24) if given["doubt"] == "dedupe" else None,
                }
                places = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
                await session.execute(
                    f"insert into web_job.type ({', '.join(columns)}) values ({places})", *columns.values()
                )

    # -- what the others ask

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it beside all else."""
        self.relay.keep(work)

    def web_of(self, worker: Worker) -> Web:
        """What the bodies of a worker share."""
        if worker.name not in self._webs:
            pool: Any = JobsPool(self.database, worker)
            names: Any = None
            self._webs[worker.name] = Web(pool, names)
        return self._webs[worker.name]

    def done_again(self, key: str, kind: str) -> None:
        """A page has done its work once more."""
        given = TYPES[kind]
        if given["doubt"] != "repeat" and given.get("otherwise") != "repeat":
            self.found("done twice", key)

    def calls_back(self, token: str, ok: bool) -> None:
        """A page calls back, until it is heard."""
        self.keep(self.operators.call_back(token, ok))


class FamilyDatabase(SqlDatabase):
    """With the tables of web jobs, and a follower that shows states in them."""

    def __init__(self, world: FamilyWorld, postgres: Postgres) -> None:
        super().__init__(world, postgres)
        self.follower = FollowerProcess(self)

    async def open(self) -> None:
        """Make it empty."""
        await super().open()
        async with self.sessions.lent() as session:
            await session.execute("; ".join(f"delete from web_job.{table}" for table in _TABLES))

    async def read(self) -> None:
        """Read what is on record, and of which jobs."""
        await super().read()
        for row in await self.sessions.fetch(_KNOWN):
            entity = Entity("web-job", row["id"], row["generation"])
            known = self.rows.get(row["id"])
            if known is None or known.entity != entity:
                self.rows[row["id"]] = Row(entity, None, self.world.loop.now)
        self._final = {row["id"]: row["final"] for row in await self.sessions.fetch(_KNOWN)}

    def is_final(self, entity: Entity) -> bool:
        """Whether it has ended, as the gate has it."""
        return self._final.get(entity.id) is not None

    async def behind(self) -> bool:
        """Whether a row does not show yet what is on record."""
        return bool(await self.sessions.fetch("select from perdure.behind limit 1"))

    async def why(self, entities: list[Entity]) -> list[str]:
        """What the effects of some entities wait for."""
        told = "select key, status, why from perdure.effect where id = any($1) and status <> 'done' order by key"
        return [str(tuple(row)) for row in await self.sessions.fetch(told, [each.id for each in entities])]

    def connection(self, worker: Worker) -> WorkerStore:
        """See base class."""
        return _NudgingStore(self, worker)


class _NudgingStore(WorkerStore):
    """Wakes the follower after each write."""

    async def write(self, write: Write, *, patience: float) -> Answer:
        """See `Store`."""
        try:
            return await super().write(write, patience=patience)
        finally:
            database: Any = self._database
            database.follower.nudged.set()


class FollowerProcess:
    """The real follower; it looks when something was written, and as long as something is behind."""

    def __init__(self, database: FamilyDatabase) -> None:
        self._database = database
        self.nudged = asyncio.Event()
        pool: Any = self
        self._follower = Follower(pool)

    async def run(self) -> None:
        """Follow for ever."""
        while True:
            await self.nudged.wait()
            self.nudged.clear()
            await asyncio.sleep(0.02)
            try:
                while await self._follower.once():
                    pass
                if await self._database.behind():
                    self._database.world.loop.call_later(1.0, self.nudged.set)
            except EXPECTED_ERRORS:
                self._database.world.loop.call_later(1.0, self.nudged.set)

    @asynccontextmanager
    async def acquire(self, *, timeout: float | None = None) -> AsyncIterator[VirtualSession]:
        """As a pool does."""
        await self._database.arrives()
        async with self._database.sessions.lent() as session:
            yield session

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        """As a pool does."""
        async with self.acquire() as session:
            return await session.fetch(query, *args)

    async def execute(self, query: str, *args: Any) -> str:
        """As a pool does."""
        async with self.acquire() as session:
            return await session.execute(query, *args)


class JobsPool:
    """What bodies use of their pool; a worker that is gone does nothing more with it."""

    def __init__(self, database: FamilyDatabase, worker: Worker) -> None:
        self._database, self._worker = database, worker

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[JobsSession]:
        """See asyncpg."""
        await self._database.arrives()
        async with self._database.sessions.lent() as session:
            yield JobsSession(self._database, self._worker, session)

    async def fetchval(self, query: str, *args: Any, timeout: float = 5.0) -> Any:
        """See asyncpg."""
        async with self.acquire() as session:
            return await session.fetchval(query, *args, timeout=timeout)

    async def execute(self, query: str, *args: Any) -> None:
        """See asyncpg."""
        await self.fetchval(query, *args)


class JobsSession(Borrowed):
    """A session of a body."""

    async def fetchrow(self, query: str, *args: Any, timeout: float = 5.0) -> Any:
        """See asyncpg."""
        rows = await self.fetch(query, *args, timeout=timeout)
        self._database.world.relay.nudge()
        return rows[0] if rows else None

    async def fetchval(self, query: str, *args: Any, timeout: float = 5.0) -> Any:
        """See asyncpg."""
        row = await self.fetchrow(query, *args, timeout=timeout)
        return None if row is None else row[0]


@contextmanager
def _played(world: FamilyWorld) -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, ENVIRONMENT))
        web_settings.cache_clear()
        stack.callback(web_settings.cache_clear)
        for module in (asking, looking_up):
            stack.enter_context(patch.object(module, "Exchange", Played))
        stack.enter_context(patch.object(turnstile, "random", Random(world.scenario.seed)))
        stack.enter_context(patch.object(following, "time", Clock(world)))
        web = property(lambda host: world.web_of(current_worker.get()))
        stack.enter_context(patch.object(TemporalHost, "resources", web))
        yield
