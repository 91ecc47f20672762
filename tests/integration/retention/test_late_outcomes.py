"""An outcome that becomes known after the entity ended stays on record, whatever happens to its month."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from perdure._retention.dropping import tidy
from perdure._retention.exporting import COLUMNS
from perdure._wire.writes import FenceOp
from perdure.contracts.outcomes import EffectStatus
from tests.integration.retention.months import (
    LONG_AGO,
    NAME,
    Connection,
    everything,
    finished,
    key_of,
    keys,
    perdure,
    pq,
    still_open,
)
from tests.integration.store.stores import a_fence, a_move, a_write, an_outcome, store_at, written

SETTLE = "select perdure.resolve('order', 'a', 'ship', $1, 'ann', 'seen', $2)"
RECORDED = "select effect from perdure.transition where id = 'a' and effect is not null order by version"


async def recorded(db: Connection) -> list[dict[str, Any]]:
    """The effect after each late change, oldest first."""
    return [json.loads(row[0]) for row in await db.fetch(RECORDED)]


async def test_a_settlement_after_the_export_is_on_record_when_the_month_is_gone(
    dsn: str, db: Connection, tmp_path: Path
) -> None:
    await finished(db, "a", effect="in_doubt")
    assert (await perdure(dsn, "archive", "export", NAME, "--to", str(tmp_path))).exit_code == 0
    await db.execute(SETTLE, "done", '{"number": 8}')
    assert (await perdure(dsn, "archive", "drop", NAME, "--yes")).exit_code == 0
    assert await keys(db) == []
    [effect] = await recorded(db)
    assert (effect["key"], effect["status"], effect["receipt"]) == (key_of("a"), "done", {"number": 8})
    noted = await db.fetchrow("select state, why, made_by from perdure.transition where effect is not null")
    assert tuple(noted or ()) == ("shipped", "ship resolved as done: seen", "ann")
    assert pq.read_table(tmp_path / f"effect-{NAME}.parquet")["status"].to_pylist() == ["in_doubt"]


async def test_a_settlement_after_the_drop_outlives_the_row_of_the_effect(dsn: str, db: Connection) -> None:
    await finished(db, "a", effect="in_doubt")
    assert (await perdure(dsn, "archive", "drop", NAME, "--without-export", "--yes")).exit_code == 0
    await db.execute(SETTLE, "abandoned", None)
    await tidy(db)
    assert await keys(db) == []
    [effect] = await recorded(db)
    assert (effect["status"], effect["settled_by"], effect["why"]) == ("abandoned", "ann", "seen")


@pytest.mark.parametrize("restarted", [False, True])
async def test_an_outcome_that_comes_after_the_end_is_on_record_once(dsn: str, db: Connection, restarted: bool) -> None:
    await finished(db, "a", effect="abandoned")
    if restarted:
        await db.execute("select perdure.restart('order', 'a', 'bob', 'again')")
    late = an_outcome("a", 10, EffectStatus.DONE, token="t", receipt={"number": 9}, key=key_of("a"))
    async with store_at(dsn) as store:
        for _ in range(2):  # the second one because the reply to the first was lost
            await written(store, late.model_copy(update={"lifecycle": "order"}))
    [effect] = await recorded(db)
    assert (effect["status"], effect["receipt"], effect["generation"]) == ("done", {"number": 9}, 0)
    noted = await db.fetchrow("select generation, state, why from perdure.transition where effect is not null")
    state = "starting" if restarted else "shipped"
    assert tuple(noted or ()) == (int(restarted), state, "ship became known as done")


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_read_after_the_end_of_an_effect_without_a_record_is_no_transition(
    dsn: str, db: Connection, restarted: bool
) -> None:
    await finished(db, "a", effect="abandoned")
    if restarted:
        await db.execute("select perdure.restart('order', 'a', 'bob', 'again')")
    read = a_write("a", 10, None, a_fence(FenceOp.READ, "a", key=f"{key_of('a')}/never"))
    async with store_at(dsn) as store:
        await written(store, read.model_copy(update={"lifecycle": "order"}))
    assert await recorded(db) == []


async def test_an_outcome_before_the_end_is_no_transition(dsn: str, db: Connection) -> None:
    await still_open(db, "a")
    await db.execute(
        "insert into perdure.effect (key, lifecycle, id, generation, effect, token, status, digest, first_at, "
        "attempt_at, deadline) values ($1, 'order', 'a', 0, 'ship', 't', 'attempting', 'd', now(), now(), now())",
        key_of("a"),
    )
    done = an_outcome("a", 10, EffectStatus.DONE, token="t", receipt={}, key=key_of("a"))
    async with store_at(dsn) as store:
        await written(store, done.model_copy(update={"lifecycle": "order"}))
        await written(store, a_move("a", 11, "over", final=True).model_copy(update={"lifecycle": "order"}))
    assert await recorded(db) == []


async def test_a_settlement_is_exported_with_its_own_month_and_carried_over_like_any_transition(
    dsn: str, db: Connection, tmp_path: Path
) -> None:
    await finished(db, "a", effect="in_doubt")
    await db.execute(SETTLE, "done", '{"number": 8}')
    await db.execute("update perdure.transition set at = $1 where effect is not null", LONG_AGO)  # it was then
    await db.execute("select perdure.restart('order', 'a', 'bob', 'again')")
    await db.execute("update perdure.transition set generation = 1 where effect is not null")  # so its entity is open
    assert (await perdure(dsn, "archive", "export", NAME, "--to", str(tmp_path))).exit_code == 0
    assert ("effect", "text") in COLUMNS["transition"]
    [exported] = [each for each in pq.read_table(tmp_path / f"transition-{NAME}.parquet")["effect"].to_pylist() if each]
    assert json.loads(exported)["receipt"] == {"number": 8}
    assert (await perdure(dsn, "archive", "drop", NAME, "--yes")).exit_code == 0
    carried = await db.fetchval("select effect from perdure.carried_transition where effect is not null")
    assert json.loads(carried)["receipt"] == {"number": 8}


async def test_who_settles_is_named_and_what_is_given_is_bounded(db: Connection) -> None:
    await finished(db, "a", effect="in_doubt")
    for by, note, receipt in (("", "seen", "{}"), (None, "seen", "{}"), ("ann", "n" * 2001, "{}")):
        with pytest.raises(asyncpg.InvalidParameterValueError, match=r"made_by .* or its note can not be used"):
            await db.execute("select perdure.resolve('order', 'a', 'ship', 'done', $1, $2, $3)", by, note, receipt)
    with pytest.raises(asyncpg.ProgramLimitExceededError, match="bytes are too many"):
        await db.execute(SETTLE, "done", json.dumps("x" * 2_000_000))
    assert await recorded(db) == []


@pytest.mark.parametrize("half", [True, False])
async def test_a_restart_keeps_the_tenant_when_its_month_is_detached_or_gone(
    dsn: str, db: Connection, half: bool
) -> None:
    await db.execute("select perdure.start('order', 'a', '{}', tenant => 'acme')")
    async with store_at(dsn) as store:
        await written(store, a_move("a", 10, "over", final=True).model_copy(update={"lifecycle": "order"}))
    month = await db.fetchval("select tableoid::regclass::text from perdure.finished")
    await db.execute(
        f"alter table perdure.finished detach partition {month}" + ("" if half else f"; drop table {month}")
    )
    await db.execute("select perdure.restart('order', 'a', 'ann', 'again', input => '{}')")
    assert await db.fetchval("select tenant from perdure.entity") == "acme"


async def test_a_restart_of_what_an_earlier_release_started_keeps_the_tenant(db: Connection) -> None:
    await finished(db, "a")
    await db.execute("update perdure.finished set tenant = 'acme'")
    await db.execute("select perdure.restart('order', 'a', 'ann', 'again')")
    assert await db.fetchval("select tenant from perdure.entity") == "acme"


async def test_what_is_forgotten_leaves_no_tenant(db: Connection) -> None:
    await finished(db, "a")
    await db.execute("update perdure.ident set tenant = 'acme'")
    await db.execute("select perdure.forget('order', 'a', 'ann')")
    assert await db.fetchval("select tenant from perdure.ident") is None


async def test_a_late_no_writes_nothing_about_what_was_forgotten(dsn: str, db: Connection) -> None:
    await finished(db, "a", effect="in_doubt")
    await db.execute(SETTLE, "abandoned", None)
    await db.execute("select perdure.forget('order', 'a', 'ann')")
    before = await everything(db)
    why = "550 no mailbox of mrs.miller@example.org"
    late = an_outcome("a", 10, EffectStatus.NOT_DONE, token="t", key=key_of("a"), why=why)
    lost = a_write("a", 11, None, a_fence(FenceOp.LOST, "a", key=key_of("a"), token="", why="its worker is gone"))
    async with store_at(dsn) as store:
        for each in (late, lost):
            await written(store, each.model_copy(update={"lifecycle": "order"}))
    assert await everything(db) == before


async def test_a_restart_never_takes_the_input_of_an_earlier_generation(dsn: str, db: Connection) -> None:
    await finished(db, "a")
    await finished(db, "a", date(2020, 2, 1), generation=1)
    await db.execute('update perdure.finished set input = \'{"to": "corrected"}\' where generation = 1')
    assert (await perdure(dsn, "archive", "drop", "2020-02", "--without-export", "--yes")).exit_code == 0
    with pytest.raises(asyncpg.PostgresError, match="the input of order/a is no longer on record"):
        await db.execute("select perdure.restart('order', 'a', 'ann', 'again')")
