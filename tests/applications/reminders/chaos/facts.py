"""Gathers what every record says of patients and doses, and what the provider's log has of each."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from activities.telephony.contracts import PLACE_CALL, SEND_SMS, reference_of
from perdure.contracts import Key
from perdure.contracts.keys import Entity
from tests.applications.reminders.chaos.audit import DOUBTFUL, Acceptance, DoseFacts, PatientFacts
from tests.applications.reminders.chaos.patients import Patient

_SELECT = {
    "state": """
        select lifecycle, id, state, null::text as why, attention, null::timestamptz as ended from perdure.entity
        union all select lifecycle, id, state, why, null, finished_at from perdure.finished""",
    "effect": "select lifecycle, id, status, receipt ->> 'sid' as sid from perdure.effect",
    "rejected": "select lifecycle, id, reason from perdure.rejected",
    "why": """
        select distinct on (id) lifecycle, id, why from perdure.transition
        where lifecycle = 'dosage-reminders' order by id, generation desc, version desc, at desc""",
}
_SAID = """
    select why as said from perdure.transition union all select why from perdure.effect
    union all select attention from perdure.transition union all select why from perdure.finished
    union all select reason from perdure.rejected union all select error from perdure.outbox"""
Rows = Mapping[tuple[str, str], Sequence[Any]]


class Books:
    """What was read from the app's database, by table and entity.

    Attributes:
        shown: states of patients, as the app's rows have them.
        left_over: rows in tables that must be empty at the end.
        said: reasons, wherever one is on record.
    """

    def __init__(self) -> None:
        self.tables: dict[str, Rows] = {}
        self.shown: dict[str, str] = {}
        self.left_over: dict[str, int] = {}
        self.said: list[str] = []

    async def read(self, connection: Any) -> Books:
        """Read them all."""
        for table, select in _SELECT.items():
            rows = defaultdict(list)
            for row in await connection.fetch(select):
                rows[row["lifecycle"], row["id"]].append(row)
            self.tables[table] = rows
        self.shown = {
            row["id"]: row["state"] for row in await connection.fetch("select id, state from reminders.patient")
        }
        for table in ("outbox", "behind"):
            self.left_over[table] = await connection.fetchval(f"select count(*) from perdure.{table}")
        self.said = [row["said"] for row in await connection.fetch(_SAID) if row["said"]]
        return self

    def of(self, table: str, lifecycle: str, id: str) -> Sequence[Any]:
        """Rows of one entity."""
        return self.tables[table].get((lifecycle, id), [])

    def doses(self) -> dict[str, set[str]]:
        """Ids of all doses on record, by patient."""
        found = defaultdict(set)
        for lifecycle, id in self.tables["state"]:
            if lifecycle == "dose":
                found[id.rsplit("/", 2)[0]].add(id)
        return found


def accepted_in(log: Path) -> list[Acceptance]:
    """What the provider accepted, by its log."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    failed = {line["sid"] for line in lines if line.get("status") == "undelivered" and line["outcome"] == 204}
    return [
        Acceptance(
            at=datetime.fromisoformat(line["at"]),
            what=line["what"],
            to=line["to"],
            sid=line["sid"],
            reference=line["reference"],
            fault=line["fault"],
            failed=line["sid"] in failed,
        )
        for line in lines
        if line.get("outcome") == "accepted"
    ]


def gather(
    patients: Sequence[Patient], books: Books, refused: Mapping[str, str], accepted: Iterable[Acceptance]
) -> tuple[list[PatientFacts], list[Acceptance]]:
    """Facts of every patient, and what was accepted and belongs to no dose.

    Args:
        refused: why the app's transaction failed, by patient.
    """
    accepted = list(accepted)
    by_dose, nobodys = assigned(patients, books, accepted)
    known = books.doses()
    bad_numbers = {patient.phone for patient in patients if patient.bad and patient.phone}
    numbers = [each.to for each in accepted if each.to in bad_numbers]
    facts = []
    for patient in patients:
        state, why, attention = _patient(patient.id, books, refused)
        facts.append(
            PatientFacts(
                patient=patient,
                state=state,
                why=why,
                attention=attention,
                shown=books.shown.get(patient.id),
                doses=tuple(_dose(each, books, by_dose[each.id]) for each in patient.doses),
                known=frozenset(known[patient.id]),
                accepted=numbers.count(patient.phone) if patient.bad else 0,
            )
        )
    return facts, nobodys


def assigned(
    patients: Sequence[Patient], books: Books, accepted: Sequence[Acceptance]
) -> tuple[dict[str, list[Acceptance]], list[Acceptance]]:
    """Which dose each is of: by its reference; a call that bears none by the receipt on record, or by its number.

    A call to a number that several patients share, of which no record has a receipt, is one of those in doubt.
    """
    found: dict[str, list[Acceptance]] = defaultdict(list)
    references = {reference: dose for dose, reference in _references(patients)}
    receipts = {row["sid"]: row["id"] for rows in books.tables["effect"].values() for row in rows if row["sid"]}
    by_number: dict[str, list[str]] = defaultdict(list)
    for patient in patients:
        by_number[patient.phone] += [dose.id for dose in patient.doses]
    nobodys = []
    for each in accepted:
        dose = references.get(each.reference) if each.reference else receipts.get(each.sid)
        if dose is None and not each.reference:
            ours = by_number[each.to]
            free = ours if len(ours) == 1 else [id for id in ours if not found[id] and _in_doubt(id, books)]
            dose = free[0] if free else None
        if dose is None:
            nobodys.append(each)
        else:
            found[dose].append(each)
    return found, nobodys


def _references(patients: Sequence[Patient]) -> Iterator[tuple[str, str]]:
    for patient in patients:
        for dose in patient.doses:
            for effect in (SEND_SMS, PLACE_CALL):
                for suffix in (None, "1"):
                    yield dose.id, reference_of(Key.of(Entity("dose", dose.id), effect.identity, suffix))


def _in_doubt(id: str, books: Books) -> bool:
    return any(row["status"] in DOUBTFUL for row in books.of("effect", "dose", id))


def _patient(id: str, books: Books, refused: Mapping[str, str]) -> tuple[str | None, str | None, str | None]:
    if id in refused:
        return "refused", refused[id], None
    rows = books.of("state", "dosage-reminders", id)
    attention = rows[0]["attention"] if rows else None
    if rejected := books.of("rejected", "dosage-reminders", id):
        return "rejected", rejected[0]["reason"], attention
    whys = books.of("why", "dosage-reminders", id)
    return (rows[0]["state"] if rows else None), (whys[0]["why"] if whys else None), attention


def _dose(dose: Any, books: Books, accepted: Sequence[Acceptance]) -> DoseFacts:
    rows = books.of("state", "dose", dose.id)
    return DoseFacts(
        dose=dose,
        state=rows[0]["state"] if rows else None,
        why=rows[0]["why"] if rows else None,
        ended=rows[0]["ended"] if rows else None,
        statuses=tuple(row["status"] for row in books.of("effect", "dose", dose.id)),
        accepted=tuple(accepted),
    )
