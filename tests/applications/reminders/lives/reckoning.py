"""What a patient was due, reckoned a second time: slowly, in instants of UTC, and without the application's code.

A rule names local times (`calendar_oracle` asks each day whether it fits). Each is due at the first instant at which
the patient's clock reads it or later. Of several that a gap puts at one instant, one is due. A patient whose
clock is put forward, by a move, is due at once what the new clock has read and the old one had not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from tests.applications.reminders.calendar_oracle import nominal
from tests.applications.reminders.lives.clocks import first_reads, reads
from tests.applications.reminders.lives.lives import Life, Rule, Said, Terms

DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
Name = tuple[str, datetime]
"""A rule's id, and the local time that it names."""


@dataclass(frozen=True)
class Event:
    """A dose comes due.

    Attributes:
        at: when.
        found: when it could be known: later than `at` for what a clock was put past.
        what: `go`, or why it does not: `paused`, or its window was `over` when the clock was put past it.
        rule, terms: as they hold then.
    """

    at: datetime
    found: datetime
    what: Literal["go", "paused", "over"]
    rule: Rule
    terms: Terms


def due(life: Life, *, as_it_arrived: bool = False) -> dict[Name, list[Event]]:
    """All that comes due for a patient. `as_it_arrived` = as if it held only from when somebody worked on it."""
    begins = [life.works(each.arrives) if as_it_arrived else each.at for each in life.said]
    terms = [life.terms, *(each.terms for each in life.said)]
    cuts = [life.start, *begins, life.end]
    found: dict[Name, list[Event]] = defaultdict(list)
    for number, (begin, end) in enumerate(pairwise(cuts)):
        held, before = terms[number], terms[number - 1] if number else None
        if held.over:
            break
        for rule in held.rules:
            for name, event in _of_rule(rule, held, before, begin, end):
                found[name].append(event)
    return found


def _of_rule(
    rule: Rule, held: Terms, before: Terms | None, begin: datetime, end: datetime
) -> Iterator[tuple[Name, Event]]:
    instants = _instants(rule.rule, rule.start, held.zone, end.year, end.month)
    for local, at in instants:
        if begin < at <= end:
            yield (rule.id, local), Event(at, at, "paused" if held.paused else "go", rule, held)
    if before is None or before.zone == held.zone or not any(_same_times(rule, each) for each in before.rules):
        return
    read = reads(before.zone, begin)
    for local, at in instants:
        if at <= begin and local > read:
            over = at + rule.window * MINUTE <= begin
            yield (rule.id, local), Event(at, begin, "over" if over else "paused" if held.paused else "go", rule, held)


def _same_times(one: Rule, other: Rule) -> bool:
    return (one.id, one.rule, one.start) == (other.id, other.rule, other.start)


@lru_cache(maxsize=512)
def _instants(rule: str, start: datetime, zone: str, year: int, month: int) -> Sequence[tuple[datetime, datetime]]:
    """Each local time that is due up to the end of a month, and when."""
    until = datetime(year + month // 12, month % 12 + 1, 3)
    at_once: dict[datetime, list[datetime]] = defaultdict(list)
    for local in nominal(rule, start, until):
        at_once[first_reads(zone, local)].append(local)
    return [
        (next((each for each in locals if reads(zone, at) == each), min(locals)), at)
        for at, locals in sorted(at_once.items())
    ]


def is_quiet(terms: Terms, at: datetime) -> bool:
    """Whether the patient's clock reads a quiet time."""
    if terms.quiet is None:
        return False
    start, end = terms.quiet
    now = f"{reads(terms.zone, at):%H:%M}"
    return start <= now < end if start < end else now >= start or now < end


def stops(life: Life) -> Iterator[Said]:
    """What withdraws the doses that have not gone."""
    terms = life.terms
    for each in life.said:
        if (each.terms.paused and not terms.paused) or each.terms.over:
            yield each
        terms = each.terms
