"""Compares what is on record of each patient and dose with what the provider accepted. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tests.applications.reminders.chaos.patients import DoseToCome, Kind, Patient
from tests.chaos.audit import Finding

DOUBTFUL = {"attempting", "in_doubt"}
_NOTHING = timedelta(0)


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A message or call that the provider's log has as accepted.

    Attributes:
        what: `message` or `call`.
        reference: by which its sender finds it again; empty for a call of which nothing is reported.
        fault: what went wrong with its request.
        failed: the provider has said that it never arrived, and was heard.
    """

    at: datetime
    what: str
    to: str
    sid: str
    reference: str
    fault: str | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class DoseFacts:
    """One dose.

    Attributes:
        state: on record, None = nobody knows it; `ended` = when it came to that, None = it has not ended.
        statuses: of its effects.
        accepted: what the provider accepted for it.
    """

    dose: DoseToCome
    state: str | None
    why: str | None
    ended: datetime | None
    statuses: tuple[str, ...] = ()
    accepted: tuple[Acceptance, ...] = ()


@dataclass(frozen=True, slots=True)
class PatientFacts:
    """One patient.

    Attributes:
        state: on record; `refused` = the app's transaction failed, `rejected` = it could not be started.
        shown: by the app's row; None = it has none.
        known: ids of all doses on record.
        accepted: how many were accepted for the number of a bad record.
    """

    patient: Patient
    state: str | None
    why: str | None
    attention: str | None
    shown: str | None
    doses: tuple[DoseFacts, ...] = ()
    known: frozenset[str] = frozenset()
    accepted: int = 0


@dataclass(slots=True)
class Verdict:
    """What the audit found; `apart` is what is as designed and worth knowing.

    Attributes:
        waits: seconds from the moment at which a dose might go until the provider had it.
        ended: the same until it was over on record, with whose it is.
        expired: why doses expired.
    """

    findings: list[Finding] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)
    bad: Counter[str] = field(default_factory=Counter)
    apart: Counter[str] = field(default_factory=Counter)
    expired: Counter[str] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)
    ended: list[tuple[float, str]] = field(default_factory=list)


def audit(subjects: Sequence[PatientFacts], nobodys: Sequence[Acceptance], silence: timedelta) -> Verdict:
    """Look at every patient.

    Args:
        nobodys: what was accepted, and belongs to no dose.
        silence: for how long at most the provider holds a request before it accepts it.
    """
    verdict = Verdict()
    for each in nobodys:
        verdict.findings.append(Finding("twice", each.reference or each.sid, "accepted, and no dose was to send it"))
    for subject in subjects:
        _find(verdict, f"dosage-reminders/{subject.patient.id[:60]}", _of_patient(subject))
        if subject.patient.bad is not None:
            verdict.bad[f"{subject.patient.bad.what}: {subject.state}"] += 1
        for dose in subject.doses:
            verdict.ends[dose.state or "unknown"] += 1
            _find(verdict, f"dose/{dose.dose.id}", _of_dose(dose, subject.patient, silence, verdict))
    return verdict


def _find(verdict: Verdict, who: str, problems: Iterator[tuple[str, str]]) -> None:
    verdict.findings += [Finding(kind, who, what) for kind, what in problems]


def _of_patient(subject: PatientFacts) -> Iterator[tuple[str, str]]:
    bad = subject.patient.bad
    if bad is None:
        if subject.state not in ("active", "completed"):
            yield "mismatch", f"a good record is {subject.state}: {subject.why}"
    else:
        if subject.state != bad.state or bad.said not in (subject.why or ""):
            yield "mismatch", f"{bad.what}: is {subject.state}, {subject.why!r}; not {bad.state}, {bad.said!r}"
        if not subject.why or (subject.attention is None and subject.state != "refused"):
            yield "mismatch", f"{bad.what}: nobody sees why, or that it wants somebody"
        if subject.known or subject.accepted:
            yield "mismatch", f"{bad.what}: has {len(subject.known)} doses, of which {subject.accepted} were sent"
    # What could not be started says so elsewhere; its row shows what it had at the sign-up.
    if subject.shown is not None and subject.shown != subject.state:
        yield "mismatch", f"is {subject.state}, and the app's row says {subject.shown}"
    if bad is None and (unasked := subject.known - {each.dose.id for each in subject.doses}):
        yield "mismatch", f"has doses that nobody planned: {sorted(unasked)}"


def _of_dose(facts: DoseFacts, patient: Patient, silence: timedelta, verdict: Verdict) -> Iterator[tuple[str, str]]:
    yield from _twice(facts, patient)
    yield from _out_of_hours(facts, silence, verdict)
    if facts.ended is None:
        yield "lost", f"has not ended: {facts.state}"
        return
    seconds = (facts.ended - facts.dose.opens).total_seconds()
    verdict.ended.append((seconds, f"{patient.kind}: {facts.state}, {facts.why}"))
    if not facts.why and facts.state != "sent":
        yield "mismatch", f"is {facts.state} without a reason"
    match facts.state:
        case "sent":
            yield from _of_sent(facts, patient, verdict)
        case "expired":
            yield from _of_expired(facts, patient, verdict)
        case "refused" if patient.kind == Kind.NOBODY:
            if facts.accepted:
                yield "mismatch", f"is refused, and the provider has it {len(facts.accepted)} times"
        case _:
            yield "mismatch", f"is {facts.state}, as nothing of a {patient.kind} should be: {facts.why}"


def _out_of_hours(facts: DoseFacts, silence: timedelta, verdict: Verdict) -> Iterator[tuple[str, str]]:
    dose = facts.dose
    for each in facts.accepted:
        verdict.waits.append((each.at - dose.opens).total_seconds())
        held = silence if each.fault == "delay-before" else _NOTHING
        if not dose.opens <= each.at < dose.until + held:
            yield "out of hours", f"accepted at {each.at}, not between {dose.opens} and {dose.until}"
        elif each.at >= dose.until:
            verdict.apart["left in time, and the provider held it until after its window"] += 1


def _twice(facts: DoseFacts, patient: Patient) -> Iterator[tuple[str, str]]:
    by_channel = Counter(each.what for each in facts.accepted)
    channels = 2 if patient.kind == Kind.UNDELIVERED else 1  # what did not arrive by one goes by the other
    if len(by_channel) > channels or any(number > 1 for number in by_channel.values()):
        yield "twice", f"was accepted as {dict(by_channel)}"


def _of_sent(facts: DoseFacts, patient: Patient, verdict: Verdict) -> Iterator[tuple[str, str]]:
    if not facts.accepted:
        yield "lost", "is sent, and the provider has nothing of it"
    if patient.kind in (Kind.QUIET, Kind.NOBODY):
        yield "mismatch", f"of a {patient.kind} is sent"
    if "call" not in {each.what for each in facts.accepted}:
        if patient.kind == Kind.LANDLINE or any(each.failed for each in facts.accepted):
            yield "lost", "could not be sent as a message, and nobody called"
        elif patient.kind == Kind.UNDELIVERED:
            verdict.apart["never arrived, and no callback that says so did either"] += 1


def _of_expired(facts: DoseFacts, patient: Patient, verdict: Verdict) -> Iterator[tuple[str, str]]:
    doubtful = bool(DOUBTFUL.intersection(facts.statuses))
    verdict.expired[f"{patient.kind}: {facts.why}"] += 1
    if facts.accepted and not doubtful and patient.kind != Kind.UNDELIVERED:
        yield "mismatch", "is expired with no doubt on record, and the provider has it"
    if doubtful:
        verdict.apart[f"expired in doubt, and the provider has it {'' if facts.accepted else 'not'}".strip()] += 1
    if patient.kind != Kind.QUIET and facts.ended is not None and facts.ended < facts.dose.until:
        yield "mismatch", f"expired at {facts.ended}, before the end of its window, {facts.dose.until}"
