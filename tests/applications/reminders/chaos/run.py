"""One run: patients sign up, their doses come due, workers are killed one after the other; then the audit."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import asyncpg

from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.applications.reminders.chaos.audit import Verdict, audit
from tests.applications.reminders.chaos.bad_records import MEDICINE, Way
from tests.applications.reminders.chaos.facts import Books, accepted_in, gather
from tests.applications.reminders.chaos.patients import Moment, Patient, make_patients
from tests.applications.reminders.chaos.provider import counted, heard, provider
from tests.chaos.audit import Finding
from tests.chaos.fleet import Fleet
from tests.world import World
from workers.reminders.app import app

TABLES = (Path(__file__).parents[4] / "activities" / "reminders" / "tables.sql").read_text()
WORKERS = ("worker-1", "worker-2")
LOG = "provider.log"
AWAY = 0.2
"""Seconds after which a worker that was killed is started again."""
_MINUTE = timedelta(minutes=1)
_OPEN = "select count(*) from perdure.ident where lifecycle = 'dose' and final is not null"
_UNUSABLE = "select count(*) from perdure.entity where lifecycle = 'dosage-reminders' and attention is not null"


@dataclass(frozen=True, slots=True)
class Wish:
    """What a run is to be.

    Attributes:
        bad: share of bad records.
        lead: seconds from the first sign-up until the first dose, at least.
        span: seconds within which all doses go.
        every: seconds between two kills.
        kills: how many; None = until everything is over.
        faults, report_faults: shares of requests and callbacks that go wrong.
        silence: seconds for which the provider holds a request.
        pace: seconds between two states of a message.
        window, brief: seconds after the span for which doses are of use, as a rule and where that is short.
        patience: seconds after the last window, and after the last end of a dose, for the next dose to end.
        app: what the workers run.
    """

    seed: int
    patients: int = 2000
    bad: float = 0.01
    lead: float = 60.0
    span: float = 60.0
    every: float = 10.0
    kills: int | None = None
    faults: float = 0.05
    report_faults: float = 0.05
    silence: float = 20.0
    pace: float = 0.2
    window: float = 1200.0
    brief: float = 120.0
    patience: float = 60.0
    callbacks: bool = True
    app: str = "workers.reminders.app:app"

    def moment(self, now: datetime) -> Moment:
        """When all are due: at a whole minute, if they go within one; else at one that is over, and they are spread."""
        begin = now.replace(microsecond=0) + timedelta(seconds=self.lead + 1)
        whole = begin.replace(second=0)
        if self.span >= 60:
            begin = due = whole + _MINUTE
        else:
            due = whole - _MINUTE
        return Moment(
            due,
            begin,
            begin + timedelta(seconds=self.span),
            window=timedelta(seconds=self.window),
            brief=timedelta(seconds=self.brief),
            wakes=self.span >= 60,
            callbacks=self.callbacks,
        )


@dataclass(slots=True)
class Outcome:
    """All that a run found out; `log` counts what stands in the provider's log, `whole` is in seconds."""

    wish: Wish
    moment: Moment | None = None
    verdict: Verdict = field(default_factory=Verdict)
    kinds: Counter[str] = field(default_factory=Counter)
    log: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    workers: int = 0
    sign_up: float = 0.0
    whole: float = 0.0


async def run(wish: Wish, postgres: PostgresServer, temporal: TemporalServer, database: str, folder: Path) -> Outcome:
    """Run it on these servers, in a migrated database; logs go to `folder`."""
    began = time.monotonic()
    outcome = Outcome(wish)
    connection = await asyncpg.connect(postgres.dsn(database))
    await connection.execute(TABLES)
    await connection.close()
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(World(postgres, temporal, database, folder).made(app))
        faults = {"faults": wish.faults, "report_faults": wish.report_faults, "seed": wish.seed}
        durations = {"pace": wish.pace, "silence": wish.silence}
        environment = await stack.enter_async_context(provider(folder / LOG, **faults, **durations))
        if wish.callbacks:
            environment |= await stack.enter_async_context(heard(world.dsn))
        fleet = Fleet(world, environment, apps=[wish.app], names=WORKERS)
        await fleet.start()
        await _Clinic(world, fleet, wish, folder).play(outcome)
    outcome.whole = time.monotonic() - began
    return outcome


class _Clinic:
    """Patients, and the workers that remind them."""

    def __init__(self, world: World, fleet: Fleet, wish: Wish, folder: Path) -> None:
        self._world = world
        self._fleet = fleet
        self._wish = wish
        self._folder = folder
        self._refused: dict[str, str] = {}

    async def play(self, outcome: Outcome) -> None:
        """Sign all up, kill, wait for the end of all doses, and look at everything."""
        moment = outcome.moment = self._wish.moment(datetime.now(UTC))
        patients = make_patients(self._wish.seed, self._wish.patients, self._wish.bad, moment)
        outcome.kinds.update(str(patient.kind) for patient in patients)
        began = time.monotonic()
        await self._sign_up(patients)
        outcome.sign_up = time.monotonic() - began
        killing = asyncio.create_task(self._kill(outcome))
        await self._until_all_is_over(patients)
        if self._wish.kills is None:
            killing.cancel()
        await asyncio.gather(killing, return_exceptions=True)
        await self._look(outcome, patients)

    async def _look(self, outcome: Outcome, patients: Sequence[Patient]) -> None:
        ends = await self._fleet.close()
        books = await Books().read(self._world.db)
        facts, nobodys = gather(patients, books, self._refused, accepted_in(self._folder / LOG))
        verdict = audit(facts, nobodys, timedelta(seconds=self._wish.silence))
        verdict.findings += [Finding("process", end.worker, str(end)) for end in ends if end.wrong]
        verdict.findings += [
            Finding("left over", what, f"{rows} rows") for what, rows in books.left_over.items() if rows
        ]
        verdict.findings += told(patients, self._folder, books.said)
        outcome.verdict, outcome.workers, outcome.log = verdict, len(ends), counted(self._folder / LOG)

    async def _sign_up(self, patients: Sequence[Patient]) -> None:
        async with asyncpg.create_pool(self._world.dsn, min_size=0, max_size=8) as pool:
            await asyncio.gather(*(self._sign_up_one(pool, patient) for patient in patients))

    async def _sign_up_one(self, pool: Any, patient: Patient) -> None:
        given = patient.given
        if patient.bad is not None and patient.bad.way is Way.PAST:
            start = "select perdure.start('dosage-reminders', $1, $2::jsonb)"
            await pool.execute(start, patient.id, json.dumps(given))
            return
        row = {name: json.dumps(value) if isinstance(value, dict | list) else value for name, value in given.items()}
        places = ", ".join(f"${number}" for number in range(2, len(row) + 2))
        insert = f"insert into reminders.patient (id, {', '.join(row)}) values ($1, {places})"
        try:
            await pool.execute(insert, patient.id, *row.values())
        except asyncpg.CheckViolationError as error:
            self._refused[patient.id] = str(error)

    async def _kill(self, outcome: Outcome) -> None:
        """One worker after the other, for as long as doses are open. One that is still starting counts for nothing."""
        for name in cycle(WORKERS):
            if outcome.kills == self._wish.kills:
                return
            await asyncio.sleep(self._wish.every)
            outcome.kills += self._fleet.slots[name].runs
            await self._fleet.slots[name].end(signal.SIGKILL, AWAY)

    async def _until_all_is_over(self, patients: Sequence[Patient]) -> None:
        """That something never is, the audit will say, once nothing has come to its end for so long."""
        doses = [dose for patient in patients for dose in patient.doses]
        wrong = sum(each.bad is not None and each.bad.state != "refused" for each in patients)
        patience, before = timedelta(seconds=self._wish.patience), (0, 0)
        last = max(dose.until for dose in doses) + patience
        while datetime.now(UTC) < last:
            over, seen = await self._world.db.fetchval(_OPEN), await self._world.db.fetchval(_UNUSABLE)
            if (over, seen) != before:
                before, last = (over, seen), max(last, datetime.now(UTC) + patience)
            if over >= len(doses) and seen >= wrong:
                return await self._until_delivered(last)
            await asyncio.sleep(0.1)

    async def _until_delivered(self, last: datetime) -> None:
        while datetime.now(UTC) < last and await self._world.db.fetchval("select count(*) from perdure.outbox"):
            await asyncio.sleep(0.05)


def told(patients: Sequence[Patient], folder: Path, said: Sequence[str]) -> list[Finding]:
    """Where numbers and texts of patients stand that should not: in the workers' logs, and in reasons on record."""
    secrets = {MEDICINE, *(patient.phone.removeprefix("+") for patient in patients if patient.phone)}
    texts = {log.name: log.read_text() for log in sorted(folder.glob("worker-*.log"))} | {"reasons": "\n".join(said)}
    return [
        Finding("told", where, f"{secret} stands there")
        for where, text in texts.items()
        for secret in secrets
        if secret in text
    ]
