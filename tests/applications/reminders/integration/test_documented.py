"""The manual of dosage reminders: its SQL, by a role that has its rights, and its Python do what it says."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import CoroutineType
from typing import Any

import asyncpg
import pytest

from activities.reminders.agenda import problem_with
from activities.reminders.contracts.reminders import Asked, Change, Memory, Patient, Turn, Upto
from perdure import Client, Settings
from perdure.servers.postgres import PostgresServer

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "activities" / "reminders" / "README.md").read_text()
GRANTS, SIGN_UP, CHANGES, AGAIN, DOSES = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PYTHON = re.findall(r"^<!-- (?:signs up|changes) -->\n```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
START = datetime(2027, 1, 4, tzinfo=UTC)


@pytest.fixture
async def clinic_app(postgres: PostgresServer, database: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection of the app's, in a transaction: roles outlive a database."""
    connection = await asyncpg.connect(postgres.dsn(database))
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute((ROOT / "activities" / "reminders" / "tables.sql").read_text())
    await connection.execute("create role clinic_app; create table clinic_patient (id text primary key)")
    await connection.execute(GRANTS)
    await connection.execute("set local role clinic_app")
    yield connection
    await transaction.rollback()
    await connection.close()


async def test_the_patient_of_the_page_can_be_reminded_after_each_change_and_is_signed_off_at_last(
    clinic_app: asyncpg.Connection[asyncpg.Record],
) -> None:
    await clinic_app.execute(SIGN_UP)
    await clinic_app.execute(CHANGES)
    assert [await clinic_app.fetch(each) for each in DOSES.split(";") if each.strip()] == [[], []]
    await clinic_app.execute("reset role")
    body = json.loads(await clinic_app.fetchval("select input::text from perdure.entity where id = 'p-7421'"))
    heard = await clinic_app.fetch("select name, payload::text from perdure.message order by created_at")
    assert [row["name"] for row in heard] == ["changed", "changed", "pause", "resume", "sign_off"]
    memory = Memory(patient=Patient.model_validate(body), upto=Upto(at=START))
    assert problem_with(_turn(memory.patient)) is None
    for row in heard[:2]:
        memory = memory.after(Asked(at=START, change=Change.model_validate_json(row["payload"])))
        assert problem_with(_turn(memory.patient)) is None
    sign_up = memory.patient.checked()
    assert (sign_up.phone.open(), sign_up.channel, sign_up.zone) == ("+12025550177", "call", "Europe/Berlin")


async def test_the_python_of_the_page_starts_a_patient_that_can_be_reminded_and_says_what_changes(
    postgres: PostgresServer, database: str
) -> None:
    dsn = postgres.dsn(database)
    connection = await asyncpg.connect(dsn)
    await connection.execute("create table clinic_patient (id text primary key)")
    async with Client.connect(Settings(database_url=dsn)) as client:
        given: dict[str, Any] = {"connection": connection, "client": client}
        for block in PYTHON:
            code = compile(block, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            running = eval(code, given)
            assert isinstance(running, CoroutineType)
            await running
    body = await connection.fetchval("select input::text from perdure.entity where id = 'p-7422'")
    assert problem_with(_turn(Patient.model_validate_json(body))) is None
    assert await connection.fetchval("select id from clinic_patient") == "p-7422"
    heard = await connection.fetch("select name, payload::text from perdure.message order by created_at, name")
    assert [tuple(row) for row in heard] == [("changed", '{"zone": "Europe/Berlin"}'), ("pause", None)]
    await connection.close()


def _turn(patient: Patient) -> Turn:
    tomorrow = START + timedelta(days=1)
    return Turn(patient=patient, upto=Upto(at=START), until=tomorrow, now=tomorrow)
