"""A clinic: the tables of dosage reminders, a telephony provider that answers as told, the application's worker."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from temporalio.testing import WorkflowEnvironment

from activities.telephony.settings import telephony_settings
from infra.telephony.server import ACCOUNT, TOKEN, TelephonyServer
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.applications.reminders.skipping import Skipping, skipping_server
from tests.world import World
from workers.reminders.app import app

TABLES = (Path(__file__).parents[3] / "activities" / "reminders" / "tables.sql").read_text()
SENDER = "+15005550006"


def a_plan(*rules: dict[str, Any]) -> dict[str, Any]:
    """A plan as an app writes it; each rule has what it does not say."""
    return {"rules": [{"id": "metformin", "what": "Metformin 500 mg", **rule} for rule in rules]}


def dated_by(now: datetime) -> str:
    """Put the clock by which changes are dated to a moment."""
    ahead = (now - datetime.now(UTC)).total_seconds()
    return (
        "create or replace function reminders.clock() returns timestamptz language sql volatile "
        f"as $$ select clock_timestamp() + interval '{ahead} s' $$"
    )


class Clinic:
    """Everything that a test of dosage reminders needs.

    Attributes:
        world: database, engine and client.
        telephony: the provider.
        now: by whose clock changes are dated; None = by the database's.
    """

    now: Callable[[], Awaitable[datetime]] | None = None

    def __init__(self, world: World, telephony: TelephonyServer) -> None:
        self.world = world
        self.telephony = telephony
        self.db: asyncpg.Connection[asyncpg.Record] = world.db

    async def sign_up(self, id: str, plan: Any, zone: str = "America/New_York", **columns: Any) -> None:
        """Insert a patient, which starts the reminders."""
        columns = {"id": id, "plan": json.dumps(plan), "zone": zone, "phone": "+12025550100", **columns}
        names, places = ", ".join(columns), ", ".join(f"${n}" for n in range(1, len(columns) + 1))
        await self.db.execute(f"insert into reminders.patient ({names}) values ({places})", *columns.values())

    async def change(self, id: str, **columns: Any) -> None:
        """Update a patient's row, of which the reminders hear."""
        if self.now is not None:
            await self.db.execute(dated_by(await self.now()))
        settings = ", ".join(f"{name} = ${n}" for n, name in enumerate(columns, 2))
        await self.db.execute(f"update reminders.patient set {settings} where id = $1", id, *columns.values())

    async def doses(self, patient: str) -> list[asyncpg.Record]:
        """Those that came due, in order."""
        query = "select rule, due::text, state, why from reminders.dose where patient = $1 order by due, rule"
        return await self.db.fetch(query, patient)

    async def patient(self, id: str) -> tuple[str, str | None]:
        """The state that a patient's row shows, and why."""
        shown = "select not exists (select from perdure.behind where id = $1)"
        await self.world.until(lambda: self.db.fetchval(shown, id), f"the row of {id} shows its state")
        state = await self.db.fetchval("select state from reminders.patient where id = $1", id)
        why = await self.db.fetchval(
            "select why from perdure.transition where lifecycle = 'dosage-reminders' and id = $1 "
            "order by version desc limit 1",
            id,
        )
        return state, why

    async def sent(self, patient: str, count: int) -> None:
        """Wait until so many of a patient's doses are over."""

        async def over() -> bool:
            doses = await self.doses(patient)
            return len(doses) >= count and all(each["state"] not in ("due", "sending", "accepted") for each in doses)

        await self.world.until(over, f"{count} doses of {patient}")


@pytest.fixture
async def telephony(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TelephonyServer]:
    """The provider."""
    async with TelephonyServer() as server:
        monkeypatch.setenv("PERDURE_TELEPHONY_API_URL", server.origin)
        monkeypatch.setenv("PERDURE_TELEPHONY_ACCOUNT_SID", ACCOUNT)
        monkeypatch.setenv("PERDURE_TELEPHONY_AUTH_TOKEN", TOKEN)
        monkeypatch.setenv("PERDURE_TELEPHONY_SENDER", SENDER)
        telephony_settings.cache_clear()
        yield server
    telephony_settings.cache_clear()


@pytest.fixture
async def quiet_clinic(
    postgres: PostgresServer, temporal: TemporalServer, database: str, tmp_path: Path, telephony: TelephonyServer
) -> AsyncIterator[Clinic]:
    """Without a worker."""
    connection = await asyncpg.connect(postgres.dsn(database))
    await connection.execute(TABLES)
    await connection.close()
    async with World(postgres, temporal, database, tmp_path).made(app) as world:
        yield Clinic(world, telephony)


@pytest.fixture
async def clinic(quiet_clinic: Clinic) -> AsyncIterator[Clinic]:
    """With a worker in this process."""
    async with quiet_clinic.world.worker(app):
        yield quiet_clinic


@pytest.fixture(scope="session")
def time_skipping() -> Iterator[WorkflowEnvironment]:
    """A time-skipping server, whose clock goes on from test to test."""
    with skipping_server() as environment:
        yield environment


@pytest.fixture
async def skipping(quiet_clinic: Clinic, time_skipping: WorkflowEnvironment) -> AsyncIterator[Skipping]:
    """On that server, with a worker in this process."""
    made = Skipping(quiet_clinic, time_skipping)
    async with made.working():
        yield made
        await made.close()
