"""Judges what is on record of a patient by what was due: each dose has one record, with a reason, and goes in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.applications.reminders.lives.clocks import changes, first_reads
from tests.applications.reminders.lives.lives import Life, Rule, Terms
from tests.applications.reminders.lives.playing import PATIENT, Player, Records
from tests.applications.reminders.lives.reckoning import Event, Name, due, is_quiet, stops

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Difference:
    """What is on record, and should not be; or is not, and should be."""

    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


def differences(life: Life, records: Records, *, slack: timedelta = timedelta(0)) -> list[Difference]:
    """Between the record of a life and its reckoning; `slack` = by how much something may have been delayed."""
    return list(_Judge(life, records, slack).all())


def played(life: Life) -> list[Difference]:
    """The same, for a life that is played first."""
    return differences(life, Player(life).play())


class _Judge:
    def __init__(self, life: Life, records: Records, slack: timedelta) -> None:
        self.life, self.records, self.slack = life, records, slack
        self.due, self.arrived = due(life), due(life, as_it_arrived=True)
        self.stops = [(each.at, life.works(each.arrives)) for each in stops(life)]
        self.started = {_name(id): went for id, went in records.started.items()}

    def all(self) -> Iterator[Difference]:
        for name, events in self.due.items():
            yield from self._must_be(name, events)
        for name, (moment, dose) in self.started.items():
            yield from self._may_be_started(name, moment, dose)
        for name, (moment, state, why) in self.records.not_started.items():
            if name not in self.started:
                yield from self._may_be_left(name, moment, state, why)
        yield from self._withdrawn()

    def _must_be(self, name: Name, events: list[Event]) -> Iterator[Difference]:
        """A dose that was due has a record: it was started, if it could be."""
        if name in self.started:
            return
        rest = self._known_by(events)
        if not rest:
            return
        goes = [each for each in rest if each.what == "go"]
        if name not in self.records.not_started:
            kind = "never started" if goes else "no record"
            yield Difference(kind, f"{_said(name)}, due {rest[0].at} ({rest[0].what})")
        elif any(not self._stopped(each) for each in goes):
            yield Difference("not started", f"{_said(name)}, due {goes[0].at}: {self.records.not_started[name]}")

    def _known_by(self, events: list[Event]) -> list[Event]:
        """Those that the lifecycle must have dealt with at the end of its life."""
        return [each for each in events if self._by(each) < self.life.end]

    def _by(self, event: Event) -> datetime:
        """When an event is dealt with at the latest: when its turn is, and what it is due by has arrived."""
        heard = [self.life.works(each.arrives) for each in self.life.said if each.at <= event.found]
        return self.life.works(max([event.found + event.rule.spread * MINUTE, event.at, *heard])) + self.slack

    def _stopped(self, event: Event) -> bool:
        """Whether a stop came before it had to go."""
        return any(event.at <= at and event.found <= at <= self._by(event) for at, _ in self.stops)

    def _may_be_started(self, name: Name, moment: datetime, dose: Any) -> Iterator[Difference]:
        """A dose that was started was due, and goes when it may."""
        goes = [each for each in self.due.get(name, []) if each.what == "go"]
        goes += [each for each in self.arrived.get(name, []) if each.what == "go"]
        own = [each for each in goes if each.at == _plain(dose["due"])]
        if not own:
            if not self._just_before(name, dose):
                yield Difference("started, and was not due", f"{_said(name)} at {moment}, as due {dose['due']}")
            return
        first = min(own, key=lambda each: each.at)
        if moment < first.at:
            yield Difference("too early", f"{_said(name)} at {moment}, due {first.at}")
        if moment > max(self._by(each) for each in own):
            late = max(self._by(each) for each in own)
            yield Difference("too late", f"{_said(name)} at {moment}, due {first.at}, by {late}")
        if not any(_fits(each.rule, terms, each.at, dose) for each in own for terms in self._terms_of(each)):
            yield Difference("sent when it may not be", f"{_said(name)}, due {first.at}: {dose['openings']}")

    def _terms_of(self, event: Event) -> Iterator[Terms]:
        """By which a dose may be started: until it goes, quiet hours may be others."""
        yield event.terms
        for each in self.life.said:
            if each.arrives >= event.found - MINUTE or each.at >= event.found - MINUTE:
                yield each.terms

    def _just_before(self, name: Name, dose: Any) -> bool:
        """Whether it came due shortly before the sign-up, and went after it."""
        at, start = _plain(dose["due"]), self.life.start
        return (
            any(each.id == name[0] and start - each.spread * MINUTE < at <= start for each in self.life.terms.rules)
            and first_reads(self.life.terms.zone, name[1]) == at
        )

    def _may_be_left(self, name: Name, moment: datetime, state: str, why: str) -> Iterator[Difference]:
        """A dose that is on record as not started was due, and could not go."""
        events = self.due.get(name, []) + self.arrived.get(name, [])
        reasons = {"paused": "withdrawn", "over": "expired"}
        fits = any(reasons.get(each.what) == state for each in events)
        fits |= state == "withdrawn" and any(each.what == "go" and self._stopped(each) for each in events)
        fits |= state == "withdrawn" and any(rule.id == name[0] for rule in self.life.terms.rules) and bool(self.stops)
        if not fits:
            yield Difference("a wrong reason", f"{_said(name)}: {state}, {why} at {moment}; {events[:2]}")

    def _withdrawn(self) -> Iterator[Difference]:
        """A stop withdraws the doses that were started before it and have not ended."""
        for at, arrives in self.stops:
            asked = {id for moment, ids in self.records.withdrawn if moment >= at for id in ids}
            for id, (moment, dose) in self.records.started.items():
                if moment < at and arrives < min(_until(dose), self.life.end) and id not in asked:
                    yield Difference("not withdrawn", f"{id}, started {moment}, at {at}")


def _fits(rule: Rule, terms: Terms, at: datetime, dose: Any) -> bool:
    """Whether a dose may be sent in its whole window, but for the quiet hours, and nowhere else."""
    rules: list[Rule] = [each for each in terms.rules if each.id == rule.id] or [rule]
    return any(_fits_window(each, terms, at, dose) for each in (*rules, rule))


def _fits_window(rule: Rule, terms: Terms, at: datetime, dose: Any) -> bool:
    may = [(_plain(each["start"]), _plain(each["until"])) for each in dose["openings"]]
    end = at + rule.window * MINUTE
    if any(start < at or until > end for start, until in may):
        return False
    if terms.quiet is None:
        return len(may) == 1 and may[0][1] == end and may[0][0] < at + max(rule.spread, 1) * MINUTE
    minutes = [at + number * MINUTE for number in range(rule.window)]
    loud = {each for each in minutes if not is_quiet(terms, each)}
    inside = {each for each in minutes if any(start <= each < until for start, until in may)}
    if not inside <= loud:
        return False
    if any(abs(each - at) < timedelta(days=2) for each in changes(terms.zone, at.year)):
        return True  # in doubt it is quiet: how long, the application says
    return all(_waits(each, loud, rule.spread) for each in loud - inside)


def _waits(minute: datetime, loud: set[datetime], spread: int) -> bool:
    """Whether it is so early in its opening that the spread may still hold it back."""
    return any(minute - number * MINUTE not in loud for number in range(1, spread + 1))


def _until(dose: Any) -> datetime:
    return max((_plain(each["until"]) for each in dose["openings"]), default=datetime.min)


def _name(id: str) -> Name:
    patient, rule, local = id.split("/")
    assert patient == PATIENT
    return rule, datetime.fromisoformat(local)


def _said(name: Name) -> str:
    return f"{name[0]}/{name[1]:%Y-%m-%dT%H:%M}"


def _plain(at: Any) -> datetime:
    return datetime.fromisoformat(at).astimezone(UTC).replace(tzinfo=None)
