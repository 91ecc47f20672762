"""A time that an earlier release let in, or that lies far from today, stops no reader, in whatever time zone."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest

from infra.postgres import PostgresServer
from perdure._store import schema
from perdure._store.queries import query
from perdure._wire.writes import EffectView
from tests.integration.archiving.archiving_ground import finished, perdure
from tests.integration.store.store_ground import Connection, run_on

OLD = 15
"""The newest migration of a schema that may hold such times."""
FAR = {
    "infinity": datetime(9999, 12, 31, tzinfo=UTC),
    "-infinity": datetime(1, 1, 1, tzinfo=UTC),
    "290000-01-01 00:00:00+00": datetime(9999, 12, 31, tzinfo=UTC),
    "4000-01-01 00:00:00+00 BC": datetime(1, 1, 1, tzinfo=UTC),
}


@pytest.fixture
async def old(postgres: PostgresServer) -> AsyncIterator[Connection]:
    """A database with the schema of before."""
    name = "old_" + secrets.token_hex(6)
    await run_on(postgres.dsn(), f"create database {name} template template1")
    connection = await asyncpg.connect(postgres.dsn(name))
    for each in schema.migrations():
        if each.number <= OLD:
            await connection.execute(each.sql)
            await connection.execute(
                "insert into perdure.migration (number, name, oldest) values ($1, $2, $3)",
                *(each.number, each.name, each.oldest),
            )
    yield connection
    await connection.close()
    await run_on(postgres.dsn(), f"drop database {name} with (force)")


@pytest.mark.parametrize("far", FAR)
async def test_far_times_of_an_earlier_schema_are_brought_in_by_the_migration(old: Connection, far: str) -> None:
    await old.execute(f"""
        insert into perdure.ident (lifecycle, id) values ('errand', 'a');
        insert into perdure.entity (lifecycle, id, round, state, stuck_at)
            values ('errand', 'a', 0, 's', greatest(now(), '{far}'));
        insert into perdure.effect (
            key, lifecycle, id, round, effect, token, status, digest, first_at, attempt_at, deadline)
            values ('k', 'errand', 'a', 0, 'mail', 't', 'in_doubt', '', '{far}', '{far}', '{far}'),
                ('near', 'errand', 'a', 0, 'mail', 't', 'in_doubt', '', '2026-01-01Z', '2026-01-01Z', '2026-01-01Z');
        insert into perdure.outbox (lifecycle, id, round, kind, not_before, wanted_at)
            values ('errand', 'a', 0, 'start', greatest(now(), '{far}'), '{far}');
        insert into perdure.rejected (seq, lifecycle, id, round, kind, body, reason, wanted_at)
            values (1, 'errand', 'b', 0, 'start', '{{}}', 'r', '{far}')""")
    assert schema.migrations()[-1].number > OLD
    await schema.migrate(old)
    mended = FAR[far]
    row = await old.fetchrow("select first_at, attempt_at, deadline, earlier_doubt from perdure.effect where key = 'k'")
    assert tuple(row or ()) == (mended, mended, mended, None)
    assert await old.fetchval("select first_at from perdure.effect where key = 'near'") == datetime(
        2026, 1, 1, tzinfo=UTC
    )
    assert await old.fetchval("select wanted_at from perdure.outbox") == mended
    assert await old.fetchval("select wanted_at from perdure.rejected") == mended
    for column in ("not_before from perdure.outbox", "stuck_at from perdure.entity"):
        assert (await old.fetchval(f"select {column}")).year <= 9999


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata", "Pacific/Kiritimati", "UTC"])
@pytest.mark.parametrize("since", ["0001-01-01T00:00:00+00:00", "1800-06-01T12:00:00+00:00"])
async def test_a_time_far_from_today_is_read_in_any_time_zone(db: Connection, zone: str, since: str) -> None:
    await db.execute(f"set timezone = '{zone}'")
    adopt = "select perdure.adopt('errand', 'a', '{}', 5, 'mail', 'errand/a/mail', $1::text::timestamptz, '36500 days')"
    await db.execute(adopt, since)
    await db.execute("update perdure.effect set deadline = '9999-12-31 23:59:59+00'")
    view = EffectView.model_validate_json(await db.fetchval("select perdure.effect_view('errand/a/mail')"))
    assert view.first_at == datetime.fromisoformat(since)
    assert view.in_flight > 0
    await db.execute("delete from perdure.outbox; update perdure.entity set attention = 'in doubt'")
    rows = await db.fetch(query("open_for_clean_up"), ["errand"], "", "", 10, None, None)
    [doubt] = json.loads(rows[0]["doubts"])
    assert datetime.fromisoformat(doubt["first_at"]) == datetime.fromisoformat(since)
    assert datetime.fromisoformat(doubt["deadline"]) == datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


async def test_an_export_and_show_hold_the_first_and_the_last_time(dsn: str, db: Connection, tmp_path: Path) -> None:
    await finished(db, "a")
    await db.execute("update perdure.effect set first_at = '0001-01-01Z', deadline = '9999-12-31 23:59:59Z'")
    assert (await perdure(dsn, "archive", "export", "2020-01", "--to", str(tmp_path))).exit_code == 0
    shown = await perdure(dsn, "show", "order", "a", TEMPORAL_ADDRESS="127.0.0.1:1")
    assert "1-01-01 00:00:00 UTC" in shown.output, shown.output
