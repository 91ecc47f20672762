"""A time that lies far from today stops no reader, in whatever time zone."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure._store.parked import ABOUT_DOUBT
from perdure._store.sql import queries
from perdure._wire.writes import EffectView
from tests.integration.retention.months import finished, perdure
from tests.integration.store.stores import Connection


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata", "Pacific/Kiritimati", "UTC"])
@pytest.mark.parametrize("since", ["0001-01-01T00:00:00+00:00", "1800-06-01T12:00:00+00:00"])
async def test_a_time_far_from_today_is_read_in_any_time_zone(db: Connection, zone: str, since: str) -> None:
    await db.execute(f"set timezone = '{zone}'")
    row = "'booking', 'a', '{}', 5, 'mail', 'booking/a/mail', $1::text::timestamptz, '36500 days'"
    await db.execute(f"select perdure.import_row({row})", since)
    await db.execute("update perdure.effect set deadline = '9999-12-31 23:59:59+00'")
    view = EffectView.model_validate_json(await db.fetchval("select perdure.effect_view('booking/a/mail')"))
    assert view.first_at == datetime.fromisoformat(since)
    assert view.in_flight > 0
    await db.execute("delete from perdure.outbox; update perdure.entity set attention = 'mail is in doubt: ?'")
    query = queries("perdure._reconcile")("open_for_reconciliation")
    rows = await db.fetch(query, ["booking"], "", "", 10, None, None, ABOUT_DOUBT)
    [doubt] = json.loads(rows[0]["doubts"])
    assert datetime.fromisoformat(doubt["first_at"]) == datetime.fromisoformat(since)
    assert datetime.fromisoformat(doubt["deadline"]) == datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


async def test_an_export_and_show_hold_the_first_and_the_last_time(dsn: str, db: Connection, tmp_path: Path) -> None:
    await finished(db, "a")
    await db.execute("update perdure.effect set first_at = '0001-01-01Z', deadline = '9999-12-31 23:59:59Z'")
    assert (await perdure(dsn, "archive", "export", "2020-01", "--to", str(tmp_path))).exit_code == 0
    shown = await perdure(dsn, "show", "order", "a", TEMPORAL_ADDRESS="127.0.0.1:1")
    assert "1-01-01 00:00:00 UTC" in shown.output, shown.output
