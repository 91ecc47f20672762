"""What became of the orders of one scenario, judged by the outside server's record and the orders' rows."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Judged:
    """Counts of orders.

    Attributes:
        ended: those in the state `charged`.
        lost: those in another state, which the tool does not report.
        reported: those in another state, which the tool reports as in doubt.
        twice: those that were charged more than once.
        unpaid: those in the state `charged` without a charge.
        seconds: from the kill to the end, median; None = none ended.
    """

    orders: int
    ended: int
    lost: int
    reported: int
    twice: int
    unpaid: int
    seconds: float | None


def judge(
    orders: Collection[int],
    charges: Iterable[int],
    ended_at: Mapping[int, float],
    in_doubt: Collection[int],
    killed_at: float,
) -> Judged:
    """Judge one scenario.

    Args:
        orders: the numbers of its orders.
        charges: the number of the order of each charge that the server recorded.
        ended_at: when the state `charged` was written.
        in_doubt: the orders that the tool reports as in doubt.
        killed_at: when the process was killed, on the same clock.
    """
    charged = Counter(order for order in charges if order in orders)
    ended = [order for order in orders if order in ended_at]
    reported = [order for order in orders if order not in ended_at and order in in_doubt]
    return Judged(
        orders=len(orders),
        ended=len(ended),
        lost=len(orders) - len(ended) - len(reported),
        reported=len(reported),
        twice=sum(count > 1 for count in charged.values()),
        unpaid=sum(not charged[order] for order in ended),
        seconds=statistics.median(ended_at[order] - killed_at for order in ended) if ended else None,
    )


def in_words(found: Judged) -> str:
    """One cell of the table: the bad news first, then how long it took."""
    bad = [
        f"{count} {what}"
        for count, what in (
            (found.lost, "lost"),
            (found.twice, "charged twice"),
            (found.unpaid, "not charged"),
            (found.reported, "in doubt, reported"),
        )
        if count
    ]
    if found.seconds is not None:
        bad = bad or ["once"]
        bad.append(f"{found.seconds:.0f} s" if found.seconds >= 1 else "< 1 s")
    return ", ".join(bad)
