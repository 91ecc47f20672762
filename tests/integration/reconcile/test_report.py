"""A report of many findings has few lines, and one of them says how to see each."""

from __future__ import annotations

from tests.command import perdure
from tests.world import World

MANY = 298
FINDINGS = """
    insert into perdure.finding (kind, lifecycle, id, what, advice, run)
    select 'ended', 'order', 'o' || n, case n when 7 then 'its workflow failed' else 'its workflow was terminated' end,
        'perdure retry order o' || n, 1
    from generate_series(1, $1) n
"""
ONE = "insert into perdure.finding (kind, what, advice, run) values ('schedule', 'it is paused', 'unpause it', 1)"


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
