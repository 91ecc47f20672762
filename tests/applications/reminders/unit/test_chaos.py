"""The audit of the chaos of reminders finds each kind of mistake, and the generated patients are as they should be."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from activities.reminders.agenda import agenda, problem_with
from activities.reminders.contracts.reminders import Patient as Given
from activities.reminders.contracts.reminders import Turn, Upto
from activities.telephony.contracts import SEND_SMS, reference_of
from perdure.contracts import Key
from perdure.contracts.keys import Entity
from perdure.errors import InvalidEntity
from tests.applications.reminders.chaos.audit import Acceptance, DoseFacts, PatientFacts, Verdict, audit
from tests.applications.reminders.chaos.bad_records import BAD, MEDICINE, Bad, Way
from tests.applications.reminders.chaos.facts import Books, accepted_in, assigned
from tests.applications.reminders.chaos.patients import DoseToCome, Kind, Moment, Patient, make_patients
from tests.applications.reminders.chaos.run import Wish, told

AT = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)
UNTIL = AT + timedelta(minutes=20)
SILENCE = timedelta(seconds=20)
DOSE = DoseToCome("p/r/2026-11-21T08:00", AT, UNTIL)
NUMBER = "+14152000001"
PATIENT = Patient("p", Kind.TEXTED, {}, NUMBER, (DOSE,))
MESSAGE = Acceptance(AT + timedelta(seconds=1), "message", NUMBER, "SM1", "REF00001")
CALL = replace(MESSAGE, what="call", sid="CA1")
SENT = DoseFacts(DOSE, "sent", None, AT + timedelta(seconds=2), ("done",), (MESSAGE,))
GOOD = PatientFacts(PATIENT, "active", None, None, "active", (SENT,), frozenset({DOSE.id}))
EXPIRED = replace(SENT, state="expired", why="of no use", ended=UNTIL, statuses=("not_done",), accepted=())
REFUSED = replace(SENT, state="refused", why="no number", statuses=("refused",), accepted=())
BLANK = BAD["blank text"]
SEEN = PatientFacts(Patient("b", BLANK.what, {}, NUMBER, bad=BLANK), "unusable", "what to take is", "x", "unusable")


def judged(dose: DoseFacts = SENT, kind: Kind = Kind.TEXTED, *nobodys: Acceptance) -> Verdict:
    facts = replace(GOOD, patient=replace(PATIENT, kind=kind), doses=(dose,))
    return audit([facts], nobodys, SILENCE)


@pytest.mark.parametrize(
    ("dose", "kind"),
    [
        (SENT, Kind.TEXTED),
        (replace(SENT, accepted=(CALL,)), Kind.LANDLINE),
        (replace(SENT, accepted=(replace(MESSAGE, failed=True), CALL)), Kind.UNDELIVERED),
        (SENT, Kind.UNDELIVERED),
        (EXPIRED, Kind.TEXTED),
        (replace(EXPIRED, statuses=("in_doubt",), accepted=(MESSAGE,)), Kind.TEXTED),
        (replace(EXPIRED, statuses=(), ended=AT), Kind.QUIET),
        (REFUSED, Kind.NOBODY),
    ],
)
def test_a_correct_run_passes_the_audit(dose: DoseFacts, kind: Kind) -> None:
    assert judged(dose, kind).findings == []


@pytest.mark.parametrize(
    ("dose", "kind", "found"),
    [
        (replace(SENT, accepted=()), Kind.TEXTED, "lost"),
        (replace(SENT, state=None, ended=None), Kind.TEXTED, "lost"),
        (replace(SENT, state="sending", ended=None), Kind.TEXTED, "lost"),
        (SENT, Kind.LANDLINE, "lost"),
        (replace(SENT, accepted=(replace(MESSAGE, failed=True),)), Kind.UNDELIVERED, "lost"),
        (replace(SENT, accepted=(MESSAGE, MESSAGE)), Kind.TEXTED, "twice"),
        (replace(SENT, accepted=(MESSAGE, CALL)), Kind.TEXTED, "twice"),
        (replace(SENT, accepted=(MESSAGE, MESSAGE, CALL)), Kind.UNDELIVERED, "twice"),
        (replace(SENT, accepted=(replace(MESSAGE, at=AT - timedelta(seconds=1)),)), Kind.TEXTED, "out of hours"),
        (replace(SENT, accepted=(replace(MESSAGE, at=UNTIL),)), Kind.TEXTED, "out of hours"),
        (
            replace(SENT, accepted=(replace(MESSAGE, at=UNTIL + SILENCE, fault="delay-before"),)),
            Kind.TEXTED,
            "out of hours",
        ),
        (replace(EXPIRED, why=None), Kind.TEXTED, "mismatch"),
        (replace(EXPIRED, accepted=(MESSAGE,)), Kind.TEXTED, "mismatch"),
        (replace(EXPIRED, ended=UNTIL - timedelta(seconds=1)), Kind.TEXTED, "mismatch"),
        (replace(SENT, state="error", why="?"), Kind.TEXTED, "mismatch"),
        (REFUSED, Kind.TEXTED, "mismatch"),
        (replace(REFUSED, accepted=(MESSAGE,)), Kind.NOBODY, "mismatch"),
        (SENT, Kind.NOBODY, "mismatch"),
        (SENT, Kind.QUIET, "mismatch"),
    ],
)
def test_the_audit_finds_each_fault_of_a_dose(dose: DoseFacts, kind: Kind, found: str) -> None:
    assert {finding.kind for finding in judged(dose, kind).findings} == {found}


def test_the_audit_finds_a_message_that_no_dose_ordered() -> None:
    assert [finding.kind for finding in judged(SENT, Kind.TEXTED, MESSAGE).findings] == ["twice"]


def test_what_the_provider_held_until_it_was_too_late_is_counted_apart() -> None:
    held = replace(MESSAGE, at=UNTIL + timedelta(seconds=1), fault="delay-before")
    verdict = judged(replace(SENT, accepted=(held,)))
    assert (verdict.findings, verdict.apart.total()) == ([], 1)


def test_a_bad_record_that_is_seen_with_its_reason_passes() -> None:
    assert audit([SEEN], (), SILENCE).findings == []


@pytest.mark.parametrize(
    "wrong",
    [
        replace(SEEN, state="active", shown="active"),
        replace(SEEN, state=None, shown=None),
        replace(SEEN, why="something else"),
        replace(SEEN, attention=None),
        replace(SEEN, shown="active"),
        replace(SEEN, known=frozenset({"b/r/2026-11-21T08:00"})),
        replace(SEEN, accepted=1),
        replace(GOOD, state="unusable", shown="unusable"),
        replace(GOOD, known=GOOD.known | {"p/r/2026-11-22T08:00"}),
    ],
)
def test_the_audit_finds_each_fault_of_a_patient(wrong: PatientFacts) -> None:
    assert {finding.kind for finding in audit([wrong], (), SILENCE).findings} == {"mismatch"}


def test_what_was_accepted_is_its_dose_s_by_reference_receipt_or_number() -> None:
    shared = [Patient(id, Kind.LANDLINE, {}, "+1500", (replace(DOSE, id=id),)) for id in ("a", "b", "c")]
    books = Books()
    books.tables["effect"] = {
        ("dose", "a"): [{"id": "a", "sid": "CA7", "status": "done"}],
        ("dose", "b"): [{"id": "b", "sid": None, "status": "in_doubt"}],
    }
    reference = reference_of(Key.of(Entity("dose", DOSE.id), SEND_SMS.identity))
    unknown = replace(CALL, to="+1500", reference="")
    accepted = [
        replace(MESSAGE, reference=reference),
        replace(CALL, reference="", sid="CA9"),
        replace(unknown, sid="CA8"),
        replace(unknown, sid="CA7"),
        replace(unknown, sid="CA6"),
        replace(MESSAGE, reference="ZZZZZZZZ"),
    ]
    found, nobodys = assigned([PATIENT, *shared], books, accepted)
    assert {id: [each.sid for each in all_] for id, all_ in found.items() if all_} == {
        DOSE.id: ["SM1", "CA9"],
        "a": ["CA7"],
        "b": ["CA8"],
    }
    assert [each.sid for each in nobodys] == ["CA6", "SM1"]


def test_only_what_was_accepted_is_read_from_the_log_and_whether_it_is_known_to_have_failed(tmp_path: Path) -> None:
    made = {"at": AT.isoformat(), "what": "message", "to": NUMBER, "fault": None, "outcome": "accepted"}
    lines = [
        made | {"sid": "SM1", "reference": "REF00001"},
        made | {"sid": "SM2", "reference": "REF00002"},
        {"at": AT.isoformat(), "what": "message", "to": NUMBER, "outcome": 21211},
        {
            "at": AT.isoformat(),
            "what": "callback",
            "sid": "SM1",
            "reference": "REF00001",
            "status": "undelivered",
            "outcome": 204,
        },
        {"at": AT.isoformat(), "what": "callback", "sid": "SM2", "status": "undelivered", "outcome": "missing"},
    ]
    (tmp_path / "log").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [(each.sid, each.failed) for each in accepted_in(tmp_path / "log")] == [("SM1", True), ("SM2", False)]


def test_a_number_or_a_text_in_a_log_or_a_reason_is_found(tmp_path: Path) -> None:
    (tmp_path / "worker-1-1.log").write_text(f"sent to {NUMBER}\n")
    (tmp_path / "worker-2-1.log").write_text("sent\n")
    found = told([PATIENT], tmp_path, [f"{MEDICINE} is out of stock"])
    assert [(each.kind, each.who) for each in found] == [("told", "worker-1-1.log"), ("told", "reasons")]


@pytest.fixture(params=[60.0, 2.0], ids=["within a minute", "within seconds"])
def moment(request: pytest.FixtureRequest) -> Moment:
    return Wish(1, span=request.param, lead=20).moment(datetime(2026, 11, 21, 7, 58, 50, 123, tzinfo=UTC))


def turn(given: object, moment: Moment) -> Turn:
    """The one in which all doses have come due, of somebody who signed up before."""
    upto = min(moment.begin, moment.due) if moment.wakes else moment.begin
    return Turn(
        patient=Given.model_validate(given),
        upto=Upto(at=upto - timedelta(microseconds=1)),
        until=moment.end + timedelta(minutes=5),
        now=moment.end + timedelta(minutes=5),
    )


def test_the_doses_of_good_patients_go_when_the_audit_awaits_them(moment: Moment) -> None:
    patients = make_patients(7, 200, 0.01, moment)
    good = [patient for patient in patients if patient.bad is None]
    assert {patient.kind for patient in good} == set(Kind) - (set() if moment.wakes else {Kind.WOKEN, Kind.QUIET})
    for patient in good:
        starting = agenda(patient.id, turn(patient.given, moment)).starting
        made = {each.id: [(one.start, one.until) for one in each.dose.openings] for each in starting}
        assert made == {
            dose.id: [(dose.opens, dose.until)] if dose.opens < dose.until else [] for dose in patient.doses
        }
        if patient.kind not in (Kind.WOKEN, Kind.QUIET):
            assert all(moment.begin <= dose.opens < moment.end for dose in patient.doses)


@pytest.mark.parametrize("bad", [bad for bad in BAD.values() if bad.state == "unusable"], ids=lambda bad: bad.what)
def test_bad_records_are_as_bad_as_they_say(bad: Bad, moment: Moment) -> None:
    [patient] = [each for each in make_patients(7, 50, 0.01, moment) if each.bad is bad]
    problem = problem_with(turn(patient.given, moment))
    if bad.id_length:
        assert problem is None
        with pytest.raises(InvalidEntity, match="900 is the most"):
            agenda(patient.id, turn(patient.given, moment))
    else:
        assert problem is not None
        assert bad.said in problem
        assert MEDICINE not in problem


def test_the_same_seed_makes_the_same_patients_and_another_seed_others(moment: Moment) -> None:
    assert make_patients(7, 60, 0.01, moment) == make_patients(7, 60, 0.01, moment)
    assert make_patients(7, 60, 0.01, moment) != make_patients(8, 60, 0.01, moment)
    ways = {patient.bad.way for patient in make_patients(7, 60, 0.01, moment) if patient.bad}
    assert ways == set(Way)
