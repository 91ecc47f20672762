"""Receipts and snapshots stay on record: only a payload that PostgreSQL can't store is ever left out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure._activity.execution import keep
from perdure._store.postgres import PostgresStore
from perdure._wire.writes import Verdict
from perdure.contracts.outcomes import EffectStatus
from perdure.errors import RefusedWrite
from tests.integration.store.stores import PATIENCE, Connection, a_begin, a_move, an_outcome, written

BREAKS = {
    "a missing table": (
        "alter table perdure.effect rename to effect_moved",
        "alter table perdure.effect_moved rename to effect",
    ),
    "a constraint": (
        "alter table perdure.effect add constraint no_receipts check (receipt is null)",
        "alter table perdure.effect drop constraint no_receipts",
    ),
}


@pytest.mark.parametrize("broken", BREAKS)
async def test_a_write_that_the_schema_refuses_fails_and_keeps_its_receipt(
    store: PostgresStore, db: Connection, broken: str
) -> None:
    await written(store, a_begin("a", 1))
    outcome = an_outcome("a", 2, EffectStatus.DONE, receipt={"id": 7})
    breaks, mends = BREAKS[broken]
    await db.execute(breaks)
    try:
        with pytest.raises(RefusedWrite, match="booking/a: PostgreSQL refuses it: "):
            await keep(outcome, store, PATIENCE)
    finally:
        await db.execute(mends)
    answer = await keep(outcome, store, PATIENCE)
    assert answer.verdict is Verdict.STORED
    assert await _receipt(db) == {"id": 7}


@pytest.mark.parametrize("snapshot", ["\0", "\ud800"], ids=["NUL", "lone surrogate"])
async def test_a_snapshot_that_postgresql_can_not_store_is_left_out_and_the_record_says_so(
    store: PostgresStore, db: Connection, snapshot: str
) -> None:
    await keep(a_move("a", 1, snapshot=snapshot), store, PATIENCE)
    row = await db.fetchrow("select snapshot, attention from perdure.entity where id = 'a'")
    assert row is not None
    assert row["snapshot"] is None
    assert row["attention"].startswith("(not stored: ")


async def _receipt(db: Connection) -> Any:
    return json.loads(await db.fetchval("select receipt from perdure.effect where id = 'a'"))
