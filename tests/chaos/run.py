"""One run of the chaos: servers, workers, proxies, faults, people; then peace, then the audit."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

from infra.mail.server import At, Fault, MailServer
from infra.temporal_server import TemporalOnPostgres
from perdure._store import schema
from perdure.contracts.keys import Entity
from perdure.servers.postgres import PostgresServer
from perdure.testing.exploring.sql_record import SqlRecord
from perdure.testing.proxy import Proxy, proxied
from tests.app_tables import APP_TABLES
from tests.chaos.answers import FILE, Kept
from tests.chaos.app import app
from tests.chaos.audit import Finding, Verdict, audit
from tests.chaos.company import Company
from tests.chaos.facts import WAYS, Books, gather, subjects, unasked
from tests.chaos.faults import Faults, Happened
from tests.chaos.fleet import Fleet
from tests.chaos.histories import keep
from tests.chaos.judging import Judge
from tests.chaos.load import Load
from tests.chaos.other_side import OtherSide
from tests.chaos.people import Adders, Operator
from tests.chaos.plan import OF_APP, OF_TEMPORAL, TO_MAIL, TO_OTHER_SIDE, TO_POSTGRES, TO_TEMPORAL, Plan
from tests.chaos.postbox import Postbox
from tests.chaos.recovery import Clock, Step, clocks
from tests.chaos.retrying import EXPECTED_ERRORS
from tests.mail_secret import MAIL_SECRET
from tests.world import World

PEACE = 300.0
"""Seconds after the last fault in which something more must come to its end, until everything has."""
ANSWERS = "answers.jsonl"
"""File in the folder of a run: what `perform` had returned to random lifecycles when they ordered their ends."""
HISTORIES = "histories"
"""Folder in the folder of a run: whole histories of the entities with a finding."""
_OPEN = "select count(*) from perdure.entity where lifecycle <> 'counter'"
_SETTINGS = {
    "limit.historyCount.suggestContinueAsNew": 60,
    "frontend.keepAliveTime": "5s",
    "frontend.keepAliveTimeout": "3s",
}
"""Of Temporal: runs go on in new ones often, and what polled from a host that is lost is given to another one soon."""
_UNDELIVERED = "select (select count(*) from perdure.outbox) + (select count(*) from perdure.behind)"
_SAMPLE = """
    select (select count(*) from perdure.entity) as open,
        (select count(*) from perdure.entity where attention is not null) as parked,
        (select count(*) from perdure.ident where final is not null) as done,
        (select count(*) from perdure.effect where status = 'in_doubt'
            or (status = 'attempting' and deadline < clock_timestamp())) as in_doubt
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """How many lifecycles were open, parked and done, and how many effects in doubt, `at` seconds from the begin."""

    at: float
    open: int
    parked: int
    done: int
    in_doubt: int


@dataclass(slots=True)
class Outcome:
    """All that a run found out."""

    plan: Plan
    verdict: Verdict = field(default_factory=Verdict)
    samples: list[Sample] = field(default_factory=list)
    happened: list[Happened] = field(default_factory=list)
    clocks: list[Clock] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    began: float = 0.0
    seconds: float = 0.0
    peace: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)


async def run(plan: Plan, folder: Path) -> Outcome:
    """Run a plan to its end; logs of servers and workers go to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    outcome = Outcome(plan)
    async with _Scene(plan, folder).laid() as scene:
        await scene.play(outcome)
    return outcome


class _Scene:
    """The servers of a run and who is on them."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.folder = folder
        self.postgres = PostgresServer(durable=False)
        self.temporal = TemporalOnPostgres(log_file=folder / "temporal.log", dynamic_config=_SETTINGS)
        # From `failed` these lifecycles can't lead to `expired`.
        expiring = {start.id for start in plan.starts if start.seconds}
        self.other_side = OtherSide(plan.seed, expiring)
        self.postbox = Postbox(folder / "maildir")
        self.mail: MailServer
        self.world: World
        self.fleet: Fleet
        self.faults: Faults

    @asynccontextmanager
    async def laid(self) -> AsyncIterator[_Scene]:
        async with AsyncExitStack() as stack:
            for server in (self.postgres, self.temporal):
                stack.callback(server.close)
            ports = {TO_POSTGRES: self.postgres.port, TO_TEMPORAL: self.temporal.port, OF_APP: self.postgres.port}
            if any(fault.victim == OF_TEMPORAL for fault in self.plan.faults):  # a busy proxy slows down all of it
                ports[OF_TEMPORAL] = self.temporal.postgres.port
            proxies = {way: await stack.enter_async_context(proxied(port)) for way, port in ports.items()}
            if OF_TEMPORAL in proxies:
                self.temporal.database_port = proxies[OF_TEMPORAL].port
            for server in (self.postgres, self.temporal.postgres):
                await asyncio.to_thread(server.start)
                await _end_idle_transactions(server)
            await asyncio.to_thread(self.temporal.start)
            database = await self._database()
            self.world = World(self.postgres, self.temporal, database, self.folder)
            self.world.config = self.world.config.model_copy(update={"database_url": _url(proxies[OF_APP], database)})
            self.world.counterparty = self.other_side
            await stack.enter_async_context(self.world.made(app))
            self.mail = MailServer(self.folder / "maildir", self.folder / "mail.log")
            await stack.enter_async_context(self.mail)
            for way, port in ((TO_OTHER_SIDE, self.other_side.port), (TO_MAIL, self.mail.port)):
                proxies[way] = await stack.enter_async_context(proxied(port))
            self.fleet = Fleet(self.world, _environment(database, self.folder, proxies))
            self.faults = Faults(self.fleet, self.postgres, self.temporal, proxies, self.world.dsn)
            yield self

    async def play(self, outcome: Outcome) -> None:
        """Start the workers, break what the plan says, wait for the end of everything, and look at it."""
        load = Load(self.world.config.database_url, self.world.client, self.plan)
        adders = Adders(self.world, self.plan)
        company = Company(self.world, self.plan, self.other_side)
        operator = Operator(self.world, self.other_side, self.postbox, company)
        await self.fleet.start()
        began, outcome.began = asyncio.get_running_loop().time(), time.time()
        people = operator.run(), company.run(began), adders.run(began)
        async with _background(*people, self._sample(outcome.samples, began), self.faults.supervise()):
            async with _background(_moods_of(self.mail)):
                await asyncio.gather(load.run(began), self.faults.run(self.plan, began))
            await self.fleet.deploy()
            calm = asyncio.get_running_loop().time()
            await self._until_none(_OPEN)
            adders.over.set()
            await self._until_none("select count(*) from perdure.entity")
            await self._until_none(_UNDELIVERED)
        outcome.peace = round(asyncio.get_running_loop().time() - calm, 1)
        outcome.seconds = round(asyncio.get_running_loop().time() - began, 1)
        outcome.happened = sorted(self.faults.happened, key=lambda each: each.begun)
        await self._look(outcome, adders, operator, company)

    async def _look(self, outcome: Outcome, adders: Adders, operator: Operator, company: Company) -> None:
        connection = await asyncpg.connect(self.world.dsn)
        try:
            books = await Books().read(connection)
            judge = Judge(
                self.world, self.other_side, company, await SqlRecord.read(connection), Kept(self.folder / ANSWERS)
            )
            starts = subjects(self.plan, books)
            company.note_told(start.id for start in starts[len(self.plan.starts) :])
            facts = await gather(self.world, starts, books, self.other_side, self.postbox, adders.additions, judge)
            outcome.verdict = audit(facts, WAYS, books.left_over)
            nobodys = unasked(starts, self.other_side, self.postbox, books)
            outcome.verdict.findings += [Finding("twice", who, "nobody ever started it") for who in nobodys]
            ends = await self.fleet.close()
            outcome.verdict.findings += [Finding("process", end.worker, str(end)) for end in ends if end.wrong]
            outcome.clocks = clocks(outcome.happened, _trails(books))
            outcome.counts = _counts(outcome, books, adders, operator, judge, len(ends))
            for finding in outcome.verdict.findings:
                if finding.who not in outcome.details:
                    outcome.details[finding.who] = await details(connection, self.world, finding.who, self.folder)
        finally:
            await connection.close()

    async def _database(self) -> str:
        name = "chaos_" + secrets.token_hex(3)
        admin = await asyncpg.connect(self.postgres.dsn())
        await admin.execute(f"create database {name}")
        await admin.close()
        connection = await asyncpg.connect(self.postgres.dsn(name))
        await schema.migrate(connection)
        await connection.execute(APP_TABLES)
        await connection.close()
        return name

    async def _sample(self, samples: list[Sample], began: float) -> None:
        while True:
            try:
                [row] = await self.world.client._pool.fetch(_SAMPLE, timeout=2)
                samples.append(Sample(round(asyncio.get_running_loop().time() - began, 2), **dict(row)))
            except EXPECTED_ERRORS:
                pass  # the plot has a gap where the database is away
            await asyncio.sleep(0.5)

    async def _until_none(self, count: str) -> None:
        """Wait until a count is zero, for as long as it goes down; that it never is, the audit will say."""
        least, loop = math.inf, asyncio.get_running_loop()
        end = loop.time() + PEACE
        while least and loop.time() < end:
            with suppress(*EXPECTED_ERRORS):
                left = await self.world.client._pool.fetchval(count, timeout=5)
                if left < least:
                    least, end = left, loop.time() + PEACE
            await asyncio.sleep(0.2)


async def _end_idle_transactions(server: PostgresServer) -> None:
    """Let no transaction of the application, or of Temporal, keep its locks for ever where its connection was lost in
    silence. Perdure's own sessions have their own bound."""
    admin = await asyncpg.connect(server.dsn())
    await admin.execute("alter role postgres set idle_in_transaction_session_timeout = '5s'")
    await admin.close()


@asynccontextmanager
async def _background(*works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Let them go on for as long as the context lasts."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


def _environment(database: str, folder: Path, proxies: dict[str, Proxy]) -> dict[str, str]:
    """The environment of a worker: it reaches each server through a proxy."""
    return {
        "PERDURE_DATABASE_URL": _url(proxies[TO_POSTGRES], database),
        "TEMPORAL_ADDRESS": f"127.0.0.1:{proxies[TO_TEMPORAL].port}",
        "COUNTERPARTY_PORT": str(proxies[TO_OTHER_SIDE].port),
        "PERDURE_MAIL_PORT": str(proxies[TO_MAIL].port),
        "PERDURE_MAIL_LOG": str(folder / "mail.log"),
        "PERDURE_MAIL_STARTTLS": "never",
        "PERDURE_MAIL_SECRET": MAIL_SECRET,
        "PERDURE_MAIL_TIMEOUT": "5",
        "PERDURE_MAIL_VISIBILITY_DELAY": "1",
        FILE: str(folder / ANSWERS),
    }


def _url(proxy: Proxy, database: str) -> str:
    return f"postgresql://postgres@127.0.0.1:{proxy.port}/{database}"


async def _moods_of(mail: MailServer) -> None:
    """Now and then the mail server hangs up after it has accepted a mail, and has no time for another."""
    try:
        while True:
            await asyncio.sleep(2)
            mail.order(At.ACCEPTED, Fault(close=True), times=1)
            mail.order(At.END, Fault(reply="451 4.3.0 not now"), times=1)
    finally:
        mail.orders.withdraw()


def _trails(books: Books) -> dict[tuple[str, str], list[Step]]:
    return {
        who: [Step(row["at"].timestamp(), row["attention"] is not None) for row in rows]
        for who, rows in books.tables["transition"].items()
    }


def _counts(
    outcome: Outcome, books: Books, adders: Adders, operator: Operator, judge: Judge, workers: int
) -> dict[str, int]:
    kinds = [finding.kind for finding in outcome.verdict.findings]
    return {
        "lifecycles": len(outcome.plan.starts),
        "lifecycles that others started": outcome.verdict.ends.total() - len(outcome.plan.starts),
        **{f"ended: {end}": number for end, number in sorted(outcome.verdict.ends.items())},
        "lost": kinds.count("lost"),
        "twice": kinds.count("twice"),
        "other findings": len(kinds) - kinds.count("lost") - kinds.count("twice"),
        **{f"excluded: {why}": number for why, number in sorted(outcome.verdict.excluded.items())},
        "effects": sum(map(len, books.tables["effect"].values())),
        "runs that the judge has replayed": judge.runs,
        "answers of `perform` that it judged": judge.answers,
        "random lifecycles that it judged": judge.judged,
        "ends whose answers a worker has kept": judge.kept,
        "settled by a person": operator.settled,
        "updates acknowledged": sum(each.acknowledged for each in adders.additions.values()),
        "updates without an answer": sum(each.unknown for each in adders.additions.values()),
        "faults": len(outcome.happened),
        "worker processes": workers,
    }


async def details(connection: Any, world: World, who: str, folder: Path) -> dict[str, Any]:
    """Rows of what a finding names, and the files that its histories are kept in."""
    lifecycle, _, entity_id = who.partition("/")
    found: dict[str, Any] = {}
    for table in ("ident", "entity", "effect", "finished", "transition", "outbox", "message", "behind", "rejected"):
        rows = await connection.fetch(
            f"select * from perdure.{table} where lifecycle = $1 and ($2 = '' or id = $2) limit 50",
            lifecycle,
            entity_id,
        )
        found[table] = [{name: str(value) for name, value in row.items()} for row in rows]
    if entity_id:
        try:
            files = await keep(world, Entity(lifecycle, entity_id), folder / HISTORIES)
            found["histories"] = [str(file) for file in files]
        except EXPECTED_ERRORS as error:
            found["no histories"] = str(error)
    return found
