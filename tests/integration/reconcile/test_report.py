"""A report of many findings has few lines, and one of them says how to see each."""

from __future__ import annotations

from datetime import UTC, datetime

from perdure._store.sql import queries
from tests.command import perdure
from tests.integration.reconcile.reconciling import Reconciling
from tests.world import World

MANY = 298
FINDINGS = """
    insert into perdure.finding (kind, lifecycle, id, what, advice, run, last_seen)
    select 'ended', 'order', 'o' || n, case n when 7 then 'its workflow failed' else 'its workflow was terminated' end,
        'perdure retry order o' || n, 1, now() + interval '1 hour'
    from generate_series(1, $1) n
"""
ONE = """
    insert into perdure.finding (kind, what, advice, run, last_seen)
    values ('schedule', 'it is paused', 'unpause it', 1, now() + interval '1 hour')
"""


async def test_findings_of_one_kind_stand_together_unless_each_is_asked_for(world: World) -> None:
    await world.db.execute(FINDINGS, MANY)
    await world.db.execute(ONE)
    end = await perdure(world, "reconcile")
    assert end.exit_code == 1
    lines = end.stdout.splitlines()
    assert len(lines) < 12
    [head] = [number for number, line in enumerate(lines) if line.startswith("ended  298 of order, since ")]
    assert lines[head].endswith(" and 293 more")
    assert lines[head + 1] == "    its workflow was terminated (and 1 other reasons)"
    assert lines[head + 2].strip() == (
        "perdure list --lifecycle order --finding ended; what to do about each: perdure reconcile --each"
    )
    assert "schedule  it is paused" in lines
    each = (await perdure(world, "reconcile", "--each")).stdout
    assert each.count("perdure retry order o") == MANY


async def test_a_finding_of_the_watch_stays_that_came_while_a_reconciliation_was_under_way(
    reconciliation: Reconciling,
) -> None:
    pool = reconciliation.pool
    await pool.execute("delete from perdure.finding; delete from perdure.reconciliation")
    begin = "insert into perdure.reconciliation (asked_by) values ('a test') returning run"
    earlier = await pool.fetchval(begin)
    found = "insert into perdure.finding (kind, lifecycle, id, what, run) values ('unfinished', 'lookup', $1, 'x', $2)"
    await pool.execute(found, "gone", earlier)
    run = await pool.fetchval(begin)
    await pool.execute(found, "new", earlier)  # the watch had begun its turn before
    over = queries("perdure._reconcile.runs")("findings_over")
    await pool.execute(over, run, ["unfinished"], ["lookup"], datetime.now(UTC), None, None)
    assert [row["id"] for row in await pool.fetch("select id from perdure.finding")] == ["new"]
