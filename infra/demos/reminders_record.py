"""What became of the day of `make demo-reminders`: counted from the stand-in's log, against the doses on record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias
from zoneinfo import ZoneInfo

import asyncpg

from activities.telephony.contracts import reference_of
from infra.demos.reminders_patients import Day, Expected
from infra.telephony.resources import Resource
from infra.telephony.server import TelephonyServer
from perdure import Entity
from perdure.contracts import Key

FAILED = frozenset({"undelivered", "failed", "canceled", "busy", "no-answer"})
"""The provider's states of a sending that reached nobody."""
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
EFFECTS = {"sms": "send-sms", "call": "place-call"}
_SETTLED_BY = {"look-up": "found by a look-up, not sent again", "message": "known by a callback, not sent again"}


@dataclass(frozen=True)
class SeenDose:
    """One dose at the end.

    Attributes:
        name: the local time that its id has.
        due, ended: by the patient's clock.
        by: channels by which the provider has accepted it, and that did not fail since.
        failed: those that it refused, or that did not reach anybody, with the reason.
        settled_by: how a doubt was settled.
        in_doubt: its outcome is still unknown.
        moved: its patient lived in another zone before.
        last: how the last attempt ended.
    """

    id: str
    name: str
    due: datetime
    ended: datetime
    state: str
    why: str | None
    by: tuple[str, ...]
    failed: tuple[str, ...]
    settled_by: str | None
    in_doubt: bool
    moved: bool
    last: str | None

    @property
    def remark(self) -> str:
        """What is not as with most others; empty where nothing is."""
        if self.state == "expired" and self.last:
            return f"{self.why}; last attempt: {self.last}" + (" (it had gone)" if self.by else "")
        if self.state != "sent":
            return self.why or ""
        remarks = ["its patient has moved here"] if self.moved else []
        remarks += self.failed
        if self.settled_by in _SETTLED_BY:
            remarks.append(f"its answer was lost; {_SETTLED_BY[self.settled_by]}")
        if (minutes := int((self.ended - self.due).total_seconds()) // 60) > 0:
            remarks.append(f"{minutes} min after it was due")
        if f"{self.due:%H:%M}" != self.name:
            remarks.append(f"there is no {self.name} on that day")
        elif self.due.replace(fold=1).utcoffset() != self.due.utcoffset():
            remarks.append(f"{self.name} comes twice on that day")
        return "; ".join(remarks)


@dataclass(frozen=True)
class Count:
    """Written to `build/demo-reminders.json`."""

    patients: int
    zones: int
    unusable: int
    doses: int
    sent: int
    expired: int
    refused: int
    withdrawn: int
    by_sms: int
    by_call: int
    settled_by_callback: int
    settled_by_look_up: int
    in_doubt: int
    lost: int
    twice: int
    unasked: int
    hours: float
    seconds: float = 0.0

    @property
    def wrong(self) -> bool:
        """Whether something is not as it was promised."""
        ended = self.sent + self.expired + self.refused + self.withdrawn
        return bool(self.lost or self.twice or self.unasked or ended != self.doses)


def reference(dose: str, channel: str) -> str:
    """The reference of a sending at the provider."""
    return reference_of(Key.of(Entity("dose", dose), EFFECTS[channel]))


async def seen_doses(day: Day, connection: Connection, telephony: TelephonyServer) -> list[SeenDose]:
    """What became of each dose that is on record, in their order."""
    # `at` of a transition is its commit, by the database's clock. Its version is the time at which the workflow made
    # it, by Temporal's clock, in microseconds.
    rows = await connection.fetch(
        "select f.id, f.state, f.why, i.version from perdure.finished f join perdure.ident i using (lifecycle, id) "
        "where lifecycle = 'dose'"
    )
    effects = await connection.fetch(
        "select id, effect, status, settled_by, why from perdure.effect where lifecycle = 'dose' order by first_at"
    )
    patients = {each.id: each for each in day.patients}
    dues = {each.id: each for each in day.doses}
    found = []
    for row in rows:
        ended = datetime.fromtimestamp(row["version"] / 1e6, UTC)
        dose = dues.get(row["id"])
        zone = ZoneInfo(dose.zone if dose else patients[row["id"].partition("/")[0]].zone)
        mine = {each["effect"]: each for each in effects if each["id"] == row["id"]}
        found.append(
            _notice(row, dose or Expected(row["id"], ended, str(zone), ended, ended), ended, zone, mine, telephony)
        )
    return sorted(found, key=lambda each: (each.due, each.id))


def _notice(
    row: asyncpg.Record,
    dose: Expected,
    ended: datetime,
    zone: ZoneInfo,
    effects: Mapping[str, asyncpg.Record],
    telephony: TelephonyServer,
) -> SeenDose:
    of = {channel: _accepted(telephony, reference(row["id"], channel)) for channel in EFFECTS}
    failed = [
        f"{channel}: {effect['why']}" if effect["status"] == "refused" else f"{channel}: {of[channel][0].status}"
        for channel, name in EFFECTS.items()
        if (effect := effects.get(name)) is not None
        and (effect["status"] == "refused" or (of[channel] and of[channel][0].status in FAILED))
    ]
    return SeenDose(
        id=row["id"],
        name=row["id"][-5:],
        due=dose.due.astimezone(zone),
        ended=ended.astimezone(zone),
        state=row["state"],
        why=row["why"],
        by=tuple(channel for channel, each in of.items() for one in each if one.status not in FAILED),
        failed=tuple(failed),
        settled_by=next((each["settled_by"] for each in effects.values() if each["settled_by"] in _SETTLED_BY), None),
        moved=dose.moved,
        last=next((each["why"] for each in effects.values()), None),
        in_doubt=any(each["status"] in ("attempting", "in_doubt") for each in effects.values()),
    )


def _accepted(telephony: TelephonyServer, wanted: str) -> list[Resource]:
    return [each for each in telephony.accepted if each.reference == wanted]


def counted(day: Day, doses: Sequence[SeenDose], telephony: TelephonyServer, unusable: int, hours: float) -> Count:
    """Count."""
    states = Counter(each.state for each in doses)
    known = {reference(each.id, channel) for each in doses for channel in EFFECTS}
    on_record, expected = {each.id for each in doses}, {each.id for each in day.doses}
    by = Counter(each.by[0] for each in doses if each.state == "sent" and each.by)
    settled = Counter(each.settled_by for each in doses)
    return Count(
        patients=len(day.patients),
        zones=len({each.zone for each in day.patients}),
        unusable=unusable,
        doses=len(expected),
        sent=states["sent"],
        expired=states["expired"],
        refused=states["refused"],
        withdrawn=states["withdrawn"],
        by_sms=by["sms"],
        by_call=by["call"],
        settled_by_callback=settled["message"],
        settled_by_look_up=settled["look-up"],
        in_doubt=sum(each.in_doubt for each in doses),
        lost=len(expected - on_record) + sum(each.state == "sent" and not each.by for each in doses),
        twice=sum(max(len(each.by) - 1, 0) for each in doses)
        + sum(count for each, count in telephony.references.items() if each not in known),
        unasked=len(on_record - expected)
        + sum(bool(each.by) and each.state in ("refused", "withdrawn") for each in doses)
        + sum(bool(each.by) and each.state == "expired" and not each.in_doubt for each in doses),
        hours=round(hours, 1),
    )
