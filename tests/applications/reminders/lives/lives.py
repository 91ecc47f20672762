"""Random lives of patients: what the app says of them and when, how late that arrives, and when nobody works."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from tests.applications.reminders.lives.clocks import changes, first_reads

DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
ZONES: dict[str, range] = {
    "Europe/Berlin": range(2001, 2034),
    "America/New_York": range(2001, 2034),
    "Australia/Lord_Howe": range(2001, 2034),
    "Europe/Dublin": range(2001, 2034),
    "America/St_Johns": range(2001, 2034),
    "Africa/Casablanca": range(2008, 2034),
    "Africa/Cairo": range(2001, 2034),
    "Asia/Gaza": range(2008, 2030),
    "America/Sao_Paulo": range(2001, 2019),
    "America/Caracas": range(2007, 2017),
    "Asia/Pyongyang": range(2015, 2019),
    "Antarctica/Troll": range(2006, 2034),
    "Pacific/Apia": range(2010, 2021),
    "Asia/Kathmandu": range(2001, 2034),
    "Africa/Accra": range(2001, 2034),
    "Pacific/Kiritimati": range(2001, 2034),
    "Pacific/Pago_Pago": range(2001, 2034),
}
"""Every kind of change: hours, half hours, a day, by a law, in Ramadan, and none."""


@dataclass(frozen=True)
class Rule:
    """As in a plan; `window` and `spread` in minutes."""

    id: str
    rule: str
    start: datetime
    window: int = 60
    spread: int = 0
    what: str = "x"

    def given(self) -> dict[str, Any]:
        """As an app gives it."""
        own = {"id": self.id, "rule": self.rule, "start": f"{self.start:%Y-%m-%dT%H:%M}", "what": self.what}
        return own | {"window": f"PT{self.window}M", "spread": f"PT{self.spread}M"}


@dataclass(frozen=True)
class Terms:
    """What holds of a patient at a time."""

    rules: tuple[Rule, ...]
    zone: str
    quiet: tuple[str, str] | None = None
    paused: bool = False
    over: bool = False

    def given(self) -> dict[str, Any]:
        """As an app gives it."""
        quiet = self.quiet and {"start": self.quiet[0], "end": self.quiet[1]}
        return {"plan": {"rules": [each.given() for each in self.rules]}, "zone": self.zone, "quiet_hours": quiet}


@dataclass(frozen=True)
class Said:
    """What the app says: what holds from `at` on, and when that arrives."""

    at: datetime
    arrives: datetime
    terms: Terms


@dataclass(frozen=True)
class Life:
    """A patient from the sign-up to where it is judged; instants in UTC, without an offset.

    Attributes:
        away: from when until when no worker works.
        renews: chance that a run goes on in a new one where it may.
        loses: when Temporal loses its history.
    """

    seed: int
    start: datetime
    end: datetime
    terms: Terms
    said: tuple[Said, ...] = ()
    away: tuple[tuple[datetime, datetime], ...] = ()
    renews: float = 0.0
    loses: tuple[datetime, ...] = ()

    @property
    def months(self) -> float:
        """How long it is."""
        return (self.end - self.start) / (30 * DAY)

    def works(self, at: datetime) -> datetime:
        """When a worker does what comes at a moment."""
        for begin, end in sorted(self.away):
            if begin <= at < end:
                at = end
        return at


@dataclass
class Author:
    """Writes lives.

    Args:
        seed: of the life.
        late: whether what is said may arrive late.
    """

    seed: int
    late: bool = True
    chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(f"life {self.seed}")

    def life(self) -> Life:
        """The life of the seed."""
        chance = self.chance
        zone = chance.choice(list(ZONES))
        year = chance.choice(ZONES[zone])
        turning = changes(zone, year) or [datetime(year, chance.randint(1, 12), chance.randint(1, 28))]
        days = chance.choice((2, 4, 9, 30, 90, 200))
        start = self._minute(chance.choice(turning) - chance.random() * min(days, 20) * DAY)
        end = start + days * DAY
        terms = Terms(tuple(self._rule(f"r{n}", start, days) for n in range(chance.randint(1, 3))), zone, self._quiet())
        said = self._said(start, end, terms, turning)
        away, loses = [], []
        while chance.random() < 0.25:
            begin = start + chance.random() * (end - start)
            away.append((begin, begin + chance.choice((0.01, 0.3, 2.0, 20.0)) * chance.random() * DAY / 2))
        while chance.random() < 0.15:
            loses.append(start + chance.random() * (end - start))
        renews = chance.choice((0.0, 0.0, 0.1, 0.6))
        return Life(self.seed, start, end, terms, said, tuple(away), renews, tuple(sorted(loses)))

    def _minute(self, at: datetime) -> datetime:
        return at.replace(second=self.chance.choice((0, 0, 20)), microsecond=0)

    def _rule(self, id: str, start: datetime, days: int) -> Rule:
        chance = self.chance
        hours = chance.sample((0, 1, 2, 3, 8, 12, 22, 23, chance.randint(4, 21)), chance.choice((1, 1, 2, 3)))
        at, minute = ",".join(map(str, sorted(hours))), chance.choice((0, 0, 15, 30, 45, 59))
        often = ["FREQ=DAILY", f"FREQ=DAILY;BYHOUR={at}", "FREQ=HOURLY;INTERVAL=8", "FREQ=DAILY;INTERVAL=2"]
        seldom = [
            "FREQ=WEEKLY;BYDAY=SA,SU,MO",
            "FREQ=MONTHLY;BYDAY=-1SU",
            "FREQ=WEEKLY;BYDAY=SU;WKST=SU",
            "FREQ=DAILY;INTERVAL=9",
        ]
        rule = chance.choice(seldom if days > 30 else often * 2 + seldom)
        if chance.random() < 0.1:
            rule += f";COUNT={chance.randint(2, 20)}"
        window = chance.choice((1, 15, 60, 60, 120, 240, 1380))
        spread = chance.choice((0, 0, 5, 30, 59, 119))
        local = datetime(start.year, start.month, start.day, hours[0], minute) - chance.randint(0, 20) * DAY
        return Rule(id, rule, local, window, min(spread, window - 1))

    def _quiet(self) -> tuple[str, str] | None:
        return self.chance.choice((None, None, ("22:00", "07:00"), ("01:30", "02:30"), ("12:00", "13:00")))

    def _said(self, start: datetime, end: datetime, terms: Terms, turning: list[datetime]) -> tuple[Said, ...]:
        chance = self.chance
        moments: list[datetime] = []
        while chance.random() < 0.75 and len(moments) < 6:
            near = chance.choice((start + chance.random() * (end - start), chance.choice(turning), None))
            if near is None:  # just after something was due
                rule, day = chance.choice(terms.rules), start + chance.random() * (end - start)
                near = first_reads(terms.zone, datetime.combine(day, rule.start.time()))
            moments.append(self._minute(near + chance.choice((-1, 0, 1, 3, 20, 50, 120)) * chance.random() * MINUTE))
        said: list[Said] = []
        before = start
        for at in sorted(each for each in moments if start < each < end):
            if terms.over:
                break
            terms = self._next(terms, at)
            lag = timedelta(seconds=chance.choice((0, 0, 1, 60, 3600)) * chance.random()) if self.late else timedelta(0)
            before = max(before, at + lag)
            said.append(Said(at, before, terms))
        return tuple(said)

    def _next(self, terms: Terms, at: datetime) -> Terms:
        chance = self.chance
        rules = list(terms.rules)
        match chance.choice(("zone", "zone", "pause", "pause", "plan", "plan", "words", "quiet", "both", "over")):
            case "zone":
                return replace(terms, zone=chance.choice(list(ZONES)))
            case "pause":
                return replace(terms, paused=not terms.paused)
            case "quiet":
                return replace(terms, quiet=self._quiet())
            case "over" if chance.random() < 0.4:
                return replace(terms, over=True)
            case "words":
                which = chance.randrange(len(rules))
                window = chance.choice((rules[which].window, 60, 240))
                rules[which] = replace(rules[which], what="y", window=window, spread=chance.choice((0, window // 2)))
                return replace(terms, rules=tuple(rules))
            case "both":
                rules[chance.randrange(len(rules))] = self._rule(chance.choice(("r0", "n1")), at, 9)
                rules = list({each.id: each for each in rules}.values())
                return replace(terms, rules=tuple(rules), zone=chance.choice(list(ZONES)))
            case _:
                new = self._rule(f"n{chance.randint(0, 9)}", at, 9)
                kept = [each for each in rules if each.id != new.id and chance.random() < 0.6]
                return replace(terms, rules=(*kept, new))
