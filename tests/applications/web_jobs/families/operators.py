"""Apps that insert jobs, operators who cancel, restart, disable and mend, and pages that call back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import asyncpg

from perdure._wire.requests import Resolution
from perdure.contracts.keys import Entity
from perdure.contracts.outcomes import EffectStatus
from perdure.testing.exploring.people import People
from perdure.testing.exploring.sql_acts import Act
from perdure.testing.exploring.sql_sessions import VirtualSession
from tests.applications.web_jobs.families.judge import recount
from tests.applications.web_jobs.families.scenario import MASTERS, Job

if TYPE_CHECKING:
    from tests.applications.web_jobs.families.world import FamilyWorld

_TRIES = 60
_INSERT = "insert into web_job.job (id, type) values ($1, $2)"
_OVER = "select from perdure.ident where lifecycle = 'web-job' and id = $1 and final is not null"
_REFUSED = (
    asyncpg.UniqueViolationError,
    asyncpg.NoDataFoundError,
    asyncpg.ObjectNotInPrerequisiteStateError,
)


class Operators:
    """All that commits beside workers and relays.

    Attributes:
        busy: how many of their acts are not over.
        restarted: children that somebody restarted by themselves: they may change what a master has ended with.
        inserted: ids that an app was told are its jobs.
        deleted: ids of jobs whose rows an app has deleted.
        mended: refused children that were listed again, or given up: master and id.
    """

    def __init__(self, world: FamilyWorld) -> None:
        self._world = world
        self.busy = 0
        self.restarted: set[str] = set()
        self.inserted: set[str] = set()
        self.deleted: set[str] = set()
        self.mended: set[tuple[str, str]] = set()

    def insert(self, job: Job) -> None:
        """An app inserts a job."""
        self._begin(self._insert(job))

    def do(self, act: Act) -> None:
        """Carry out one operation."""
        jobs = self._world.scenario.jobs
        if jobs:
            self._world.cover("operation", act.what)
            self._begin(self._do(act, jobs[act.entity % len(jobs)]))

    async def enable(self) -> None:
        """Nothing holds any job any more."""
        await self._transact("", 0.0, self._enable)

    async def call_back(self, token: str, ok: bool) -> None:
        """A page calls back until it was heard."""

        async def work(session: VirtualSession) -> None:
            said = await session.fetchval("select web_job.called_back($1, $2, '{}', 'it failed')", token, ok)
            self._world.cover("callback", said)

        await self._transact("", 0.0, work)

    def _begin(self, work: Awaitable[None]) -> None:
        async def done() -> None:
            self.busy += 1
            try:
                await work
            finally:
                self.busy -= 1

        self._world.keep(done())

    async def _insert(self, job: Job) -> None:
        async def work(session: VirtualSession) -> None:
            await session.execute(_INSERT, job.id, job.type)

        if await self._transact(job.how, 3.0, work):
            self.inserted.add(job.id)

    async def _do(self, act: Act, job: Job) -> None:
        match act.what:
            case "cancel":
                await self._sql(act, "select perdure.cancel('web-job', $1, 'ann', 'not today')", job.id)
            case "disable":
                await self._sql(act, "update web_job.type set disabled = 'under repair' where name = $1", job.type)
                await asyncio.sleep(act.seconds)
                await self.enable()
            case "restart":
                await self._restart(act, job.id)
            case "restart a child":
                await self._restart_child(act, job)
            case "take" | "take and delete":
                await self._take(act, job)
            case _:
                raise ValueError(f"{act.what!r} is no operation")

    async def _restart(self, act: Act, id: str) -> None:
        """Restart it once it is over, with all that could not be created."""
        if not await self._over(id):
            return
        await self._recount()
        for number, row in enumerate(await self._rows("select id from web_job.refused_child where master = $1", id)):
            given = None if number % 2 else f"{row['id']}-again"
            if await self._sql(act, "select web_job.list_child($1, $2, $3)", id, row["id"], given):
                self.mended.add((id, row["id"]))
        await self._sql(act, "select perdure.restart('web-job', $1, 'ann', 'mended')", id)

    async def _restart_child(self, act: Act, job: Job) -> None:
        children = await self._rows("select id from web_job.job where parent = $1 order by id", job.id)
        if not children:
            return
        id = self._world.random.choice(children)["id"]
        if await self._over(id):
            self.restarted.add(id)
            await self._sql(act, "select perdure.restart('web-job', $1, 'ann', 'once more')", id)

    async def _take(self, act: Act, job: Job) -> None:
        """An app inserts a job whose id a child could have; when it is over, its row may be deleted."""
        name = self._world.random.choice(sorted(self._world.scenario.types) or ["z"])
        id = f"{job.id}/{name}"
        await self._insert(Job(id, "once", how=act.how))
        if act.what == "take and delete" and id in self.inserted and await self._over(id):
            await asyncio.sleep(5.0)  # its row shows the end by then
            if await self._sql(act, "delete from web_job.job where id = $1 and parent is null", id):
                self.deleted.add(id)

    async def _over(self, id: str) -> bool:
        for _ in range(_TRIES):
            if await self._rows(_OVER, id):
                return True
            await asyncio.sleep(5.0)
        return False

    async def _recount(self) -> None:
        for finding in await recount(self._world.database.sessions):
            self._world.findings.append(finding)

    async def _rows(self, query: str, *args: Any) -> list[Any]:
        return await self._world.database.sessions.fetch(query, *args)

    async def _sql(self, act: Act, query: str, *args: Any) -> bool:
        async def work(session: VirtualSession) -> None:
            await session.fetchval(query, *args)

        return await self._transact(act.how, act.seconds, work)

    async def _enable(self, session: VirtualSession) -> None:
        held = await session.fetch("update web_job.type set disabled = null where disabled is not null returning name")
        for row in held:
            await session.fetchval("select web_job.release($1)", row["name"])

    async def _transact(self, how: str, seconds: float, work: Callable[[VirtualSession], Awaitable[None]]) -> bool:
        """Do it in a transaction; where the database fails, do it again. Whether it was committed."""
        database = self._world.database
        for _ in range(_TRIES):
            try:
                await database.arrives()
                async with database.sessions.lent() as session:
                    transaction = session.transaction()
                    await transaction.start()
                    try:
                        await work(session)
                        await asyncio.sleep(min(seconds, 20.0) if how in ("late", "rolled back") else 0.0)
                    except BaseException:
                        await transaction.rollback()
                        raise
                    if how == "rolled back":
                        await transaction.rollback()
                        return False
                    await transaction.commit()
                    self._world.relay.nudge()
                    database.follower.nudged.set()
                    return True
            except _REFUSED as refusal:
                self._world.cover("refused", type(refusal).__name__)
                return False
            except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError, OSError):
                await asyncio.sleep(1.0)
        return False


class FamilyPeople(People):
    """Settle what is parked by what the pages have done."""

    def look_after(self, entity: Entity) -> None:
        """Do what is needed, where nothing goes on by itself at this moment."""
        execution = self._world.temporal.executions.get(entity.workflow_id(None))
        if execution is None or not execution.open or (execution.tasks.task is None and not execution.run.due):
            self.help(entity)

    def _resolve(self, entity: Entity, key: str) -> None:
        world: Any = self._world
        work = world.pages.works.get(key)
        if work is not None and work.begun and world.loop.time() < work.done_at:
            return  # they see that it is at work
        # A page that only lists children is called again.
        done = work is not None and bool(work.begun) and work.well and work.kind not in MASTERS
        outcome = EffectStatus.DONE if done else EffectStatus.NOT_DONE
        world.observed.settled_by_person.add(key)
        world.cover("resolved", outcome.value)
        receipt = {"status": 200} if done else None
        said = Resolution(by="a person", note="looked", effect=key, outcome=outcome, receipt=receipt)
        self._update(entity, "resolve", said)
