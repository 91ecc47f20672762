"""Reminders: the doses of one day by local hour and by rule, as a plot; and the doses themselves, with the reasons."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from perdure.console import Page, View
from perdure.console.page import Response
from perdure.console.stacks import Column
from perdure.database import Connection
from perdure.errors import InvalidSetting, SchemaMismatch
from workers.queries import queries

LIFECYCLE = "dose"
ROWS = 50
"""On one page."""
RULES = 30
"""Of so many rules, those with the most doses, the page has the counts."""
FRESH = 10
"""Seconds for which open pages share what was read of a day."""
KINDS = {
    "sent": "well",
    "sending": "open",
    "due": "waiting",
    "in doubt": "doubt",
    "quiet hours": "quiet",
    "expired": "bad",
    "refused": "odd",
    "withdrawn": "soft",
}
"""What became of a dose, and how it is drawn."""
query = queries("workers.reminders.console")


@dataclass(slots=True)
class Day:
    """What became of the doses of one day.

    Attributes:
        hours: the counts of each local hour, by kind.
        rules: the counts of each rule, by kind, the rule with the most doses first.
        quiet: the part of the patients with quiet hours in each local hour.
    """

    hours: dict[int, Counter[str]] = field(default_factory=dict)
    rules: dict[str, Counter[str]] = field(default_factory=dict)
    quiet: list[float] = field(default_factory=lambda: [0.0] * 24)

    @property
    def total(self) -> Counter[str]:
        """The counts of the day, by kind."""
        return sum(self.hours.values(), Counter())

    @property
    def columns(self) -> list[Column]:
        """The plot: one column for each local hour."""
        return [
            Column(f"{hour:02}", self.parts(self.hours.get(hour, Counter())), self.quiet[hour]) for hour in range(24)
        ]

    def parts(self, counts: Counter[str]) -> list[tuple[str, int]]:
        """Counts as the parts of a bar or column."""
        return [(drawn, counts[kind]) for kind, drawn in KINDS.items()]

    def sentence(self, counts: Counter[str]) -> str:
        """Counts as text."""
        counted = ", ".join(f"{counts[kind]:,} {kind}" for kind in KINDS if counts[kind])
        return f"{counts.total():,} doses: {counted or 'none'}"


async def show(view: View) -> Response:
    """The plot of a day, with its numbers."""
    day, rule = _day(view), view.query.get("rule")

    async def counted() -> Day:
        async with _reading(view) as connection:
            rows = await connection.fetch(query("hours"), *_within(day), rule, RULES)
        return _counted([dict(each) for each in rows])

    async def quiet() -> list[float]:
        async with _reading(view) as connection:
            rows = await connection.fetch(query("quiet"))
        return quiet_parts([dict(each) for each in rows])

    seen, hours = await asyncio.gather(
        view.sources.kept(("reminders", day, rule), counted, fresh=FRESH, stale=60),
        view.sources.kept("quiet hours", quiet, fresh=300, stale=3600),
    )
    seen.value.quiet = hours.value
    return view.render(
        "reminders/day.html",
        day=day,
        today=_today(),
        before=day - timedelta(days=1),
        after=day + timedelta(days=1),
        rule=rule,
        seen=seen,
        found=seen.value,
        kinds=KINDS,
        most=RULES,
    )


async def doses(view: View) -> Response:
    """A page of its doses, by id, with the reasons."""
    day, after = _day(view), view.query.get("after", "")
    given = {name: view.query[name] for name in ("hour", "rule", "kind") if name in view.query}
    if given.get("kind", "sent") not in KINDS:
        raise InvalidSetting(f"no dose is {given['kind']!r}; there are: {', '.join(KINDS)}")
    hour = given.get("hour")
    if hour is not None and hour not in {str(each) for each in range(24)}:
        raise InvalidSetting(f"{hour!r} is no hour: write 0 to 23")
    async with _reading(view) as connection:
        rows = await connection.fetch(
            query("doses"),
            *(*_within(day, hour), given.get("rule"), given.get("kind"), after, ROWS + 1),
        )
    return view.render(
        "reminders/doses.html",
        day=day,
        same={"day": day.isoformat(), **given},
        given=given,
        rows=rows[:ROWS],
        kinds=KINDS,
        after=rows[ROWS - 1]["id"] if len(rows) > ROWS else None,
    )


@asynccontextmanager
async def _reading(view: View) -> AsyncIterator[Connection]:
    """A transaction that only reads."""
    async with view.reading() as connection:
        if not await connection.fetchval("select to_regclass('reminders.quiet') is not null"):
            raise SchemaMismatch(
                "the database has not the tables of dosage reminders: apply activities/reminders/tables.sql"
            )
        yield connection


def _counted(rows: Iterable[Mapping[str, Any]]) -> Day:
    found = Day()
    for row in rows:
        if row["hour"] is not None:
            found.hours.setdefault(row["hour"], Counter())[row["kind"]] = row["doses"]
        else:
            found.rules.setdefault(row["rule"], Counter())[row["kind"]] = row["doses"]
    found.hours = dict(sorted(found.hours.items()))
    found.rules = dict(sorted(found.rules.items(), key=lambda each: (-each[1].total(), each[0])))
    return found


def quiet_parts(rows: Iterable[Mapping[str, Any]]) -> list[float]:
    """The part of the patients in whose quiet hours each local hour lies, if only for a part of that hour.

    >>> quiet_parts([{"begins": "22:00", "ends": "07:00", "patients": 1}])[6:8]
    [1.0, 0.0]
    """
    counts, patients = [0] * 24, 0
    for row in rows:
        patients += row["patients"]
        begins, ends = _minutes(row["begins"]), _minutes(row["ends"])
        if begins is None or ends is None or begins == ends:
            continue
        for hour in range(24):
            quiet = range(hour * 60, hour * 60 + 60)
            within = (
                begins < quiet.stop and quiet.start < ends
                if begins < ends
                else begins < quiet.stop or quiet.start < ends
            )
            counts[hour] += row["patients"] * within
    return [count / patients if patients else 0.0 for count in counts]


def _minutes(text: str | None) -> int | None:
    """After midnight; None for what is no time of day: the record of that patient is unusable."""
    try:
        found = time.fromisoformat(text or "")
    except ValueError:
        return None
    return found.hour * 60 + found.minute


def _day(view: View) -> date:
    given = view.query.get("day")
    if given is None:
        return _today()
    try:
        day = date.fromisoformat(given)
    except ValueError:
        day = date.min
    if not 1900 <= day.year < 2200:
        raise InvalidSetting(f"{given[:40]!r} is no day: write 2027-01-04")
    return day


def _within(day: date, hour: str | None = None) -> tuple[datetime, datetime]:
    """The local time from which, and until which, doses are due."""
    begins = datetime.combine(day, time(int(hour or 0)))
    return begins, begins + (timedelta(days=1) if hour is None else timedelta(hours=1))


def _today() -> date:
    return datetime.now(UTC).date()


PAGES = [
    Page("reminders", "/reminders", show, menu="Reminders", lifecycle=LIFECYCLE),
    Page("reminders.doses", "/reminders/doses", doses, lifecycle=LIFECYCLE),
]
