"""What became of the orders, judged by the outside server's record, the orders' rows and the application's memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Charge:
    """One charge that the outside server recorded: the order, and when."""

    order: int
    at: float


@dataclass(frozen=True, slots=True)
class Judged:
    """Figures of one fault.

    Attributes:
        orders: acknowledged to the application.
        again: seconds from the fault to the first charge of an order that was committed after it.
        pause: seconds of the longest time without a charge, from the fault on.
        caught_up: seconds from the fault until every order that was committed before it has its final state.
        rows_lost: acknowledged to the application, and not in the database any more.
        charged_without_row: of the lost rows, those that were charged.
        uncharged: have a row and no charge.
        twice: were charged more than once.
    """

    orders: int
    again: float
    pause: float
    caught_up: float
    rows_lost: int
    charged_without_row: int
    uncharged: int
    twice: int


def judge(
    fault: float,
    acknowledged: Mapping[int, float],
    charges: Sequence[Charge],
    ended: Mapping[int, float],
) -> Judged:
    """Judge one fault.

    Args:
        fault: when it happened; all times are seconds since the epoch, on one clock.
        acknowledged: when each commit was acknowledged.
        charges: what the outside server recorded, in order of time.
        ended: by order that has a row, when its final state was written; 0 = it has none.
    """
    counts = Counter(each.order for each in charges)
    lost = acknowledged.keys() - ended.keys()
    later = [each.at for each in charges if acknowledged.get(each.order, 0.0) > fault]
    times = [fault, *(each.at for each in charges if each.at > fault)]
    earlier = [ended[order] for order, at in acknowledged.items() if at <= fault and order in ended]
    return Judged(
        orders=len(acknowledged),
        again=min(later, default=float("inf")) - fault,
        pause=max((after - before for before, after in pairwise(times)), default=float("inf")),
        caught_up=max(0.0, max(earlier, default=fault) - fault),
        rows_lost=len(lost),
        charged_without_row=sum(order in counts for order in lost),
        uncharged=sum(order not in counts for order in ended),
        twice=sum(count > 1 for order, count in counts.items()),
    )
