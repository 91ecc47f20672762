"""STUCK: longer in its state than `within` allows: reported once for each entity and state."""

from __future__ import annotations

from perdure._reconcile.context import Context
from perdure._reconcile.row import Row
from perdure._store.finding_kinds import STUCK


async def stuck(context: Context, row: Row) -> None:
    """Report it if it is; attempts that go on in that state make it no younger."""
    if row.stuck_at is None or row.stuck_at >= context.younger_than:
        return
    what = f"in {row.state!r} since {row.since:%Y-%m-%d %H:%M:%S %Z}, should have left it by {row.stuck_at:%H:%M:%S %Z}"
    await context.findings.report(STUCK, row.entity, what, f"Look why: {row.command('show')}", about=row.state)
