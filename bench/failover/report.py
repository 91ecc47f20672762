"""The table, for the terminal and for a page."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from bench.failover.faults import Fault
from bench.failover.judge import Judged
from bench.failover.lost import Recovery

HEADING = (
    "fault",
    "new orders",
    "pause",
    "earlier orders",
    "commits lost",
    "of these charged",
    "uncharged",
    "twice",
)
"""`Judged` has the meaning of each, in the same order."""


def cells(what: str, found: Judged) -> list[str]:
    """One line."""
    counts = (found.rows_lost, found.charged_without_row, found.uncharged, found.twice)
    seconds = (found.again, found.pause, found.caught_up)
    return [what, *(f"{each:.1f} s" for each in seconds), *(str(each) for each in counts)]


def sentence(found: Recovery) -> str:
    """What the recovery took, and what that comes to for more lifecycles."""
    pace = found.lifecycles / found.running
    reckoned = " and ".join(f"{_duration(count / pace)} for {count:,}" for count in (1_000_000, 10_000_000))
    return (
        f"With {found.lifecycles:,} open lifecycles, `perdure recover` took {found.command:.0f} s, and one worker had "
        f"started all of them again after {found.running:.0f} s ({pace:.0f} a second). At that pace, which grows with "
        f"the number of relays and the size of Temporal, it would be {reckoned}.{_where(found)}"
    )


def _where(found: Recovery) -> str:
    """Where the CPU time goes."""
    if not found.cpu:
        return ""
    each = ", ".join(f"{name} {1000 * seconds / found.lifecycles:.1f}" for name, seconds in found.cpu.items())
    share = 1000 * found.command / found.lifecycles
    return f" In seconds for 1,000 lifecycles: the command {share:.1f}; of CPU, {each}."


def markdown(
    faults: Mapping[str, Fault], judged: Mapping[str, Judged], recovery: Recovery | None, day: datetime.date
) -> str:
    """The table for a page, with the date."""
    rows = [list(HEADING), ["---"] * len(HEADING), *(cells(faults[name].what, each) for name, each in judged.items())]
    lines = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    orders = max((each.orders for each in judged.values()), default=0)
    more = f" {sentence(recovery)}" if recovery else ""
    return f"{lines}\nMeasured on {day.isoformat()} with up to {orders} orders for each fault.{more}\n"


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds >= 5400 else f"{seconds / 60:.0f} minutes"
