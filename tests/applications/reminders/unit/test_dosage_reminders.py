"""The lifecycle of a patient, rehearsed: which doses it starts and when, through a year and the app's changes."""

from __future__ import annotations

import base64
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from activities.reminders.agenda import AT_ONCE, NOTED_AT_ONCE, NotStarted, Starting, agenda, problem_with
from activities.reminders.contracts.plan import Plan, Rule
from activities.reminders.contracts.reminders import (
    TURN,
    WITHDRAW,
    Ahead,
    Asked,
    Change,
    Patient,
    SignUp,
    Since,
    Turn,
    Upto,
    bounded,
)
from perdure import Entity, OperatorRequest
from perdure._crypto.sealed import bound_to
from perdure.encryption import Private
from perdure.errors import UnknownKey, Unopenable
from perdure.testing import After, At, Rehearsal, rehearse
from workflows.reminders.dosage_reminders import DosageReminders, Reminding

ACTIVE, PAUSED, UNUSABLE, COMPLETED, ENDED = Reminding
NOON = datetime(2027, 3, 1, 12, 0, tzinfo=UTC)
"""In Accra, where clocks never change, noon is noon."""
DAYS = timedelta(hours=24)


def rule(id: str = "m", text: str = "FREQ=DAILY", start: str = "2027-03-01T08:00", **more: Any) -> Rule:
    more = {"what": Private("Metformin"), **more}
    return Rule(id=id, rule=text, start=datetime.fromisoformat(start), **more)


def patient(*rules: Rule, zone: str = "Africa/Accra", **more: Any) -> Patient:
    return SignUp(plan=Plan(rules=rules or (rule(),)), zone=zone, phone=Private("+12025550100"), **more).patient()


class Book:
    """What the steps of a patient's lifecycle do, noted down.

    Attributes:
        started: each dose that was started, with the moment.
        not_started: each that was put on record as not started, by rule and local time: what became of it.
        withdrawn: ids, and why.
    """

    def __init__(self) -> None:
        self.started: list[tuple[datetime, Starting]] = []
        self.not_started: dict[str, NotStarted] = {}
        self.withdrawn: list[tuple[tuple[str, ...], str]] = []
        self.turns: list[Turn] = []

    async def turn(self, turn: Turn, occasion: Any) -> Ahead:
        self.turns.append(turn)
        if problem := problem_with(turn):
            return Ahead(problem=problem, upto=turn.upto)
        found = agenda(occasion.entity.id, turn)
        known = {each.id for _, each in self.started}
        self.started += [(turn.now, each) for each in found.starting if each.id not in known]  # as the database has it
        for each in found.not_started:
            self.not_started.setdefault(f"{each.rule}/{each.due:%Y-%m-%dT%H:%M}", each)
        return found.ahead

    async def withdraw(self, withdrawal: Any, occasion: Any) -> int:
        self.withdrawn.append((withdrawal.doses, withdrawal.why))
        return len(withdrawal.doses)

    async def kept(self, given: Patient, *messages: Any, start: datetime = NOON, **more: Any) -> Rehearsal[Reminding]:
        script: dict[Any, list[Any]] = {TURN: [self.turn] * 3000, WITHDRAW: [self.withdraw] * 50}
        return await rehearse(
            DosageReminders, given, script, messages=messages, entity_id="jo", start=start, **more, allow_unused=True
        )

    @property
    def ids(self) -> list[str]:
        return [each.id.removeprefix("jo/") for _, each in self.started]

    @property
    def left(self) -> dict[str, tuple[str, str]]:
        """What was not started, but for what was later: what became of it, and why."""
        return {name: (each.state, each.why) for name, each in self.not_started.items() if name not in self.ids}


@pytest.fixture
def book() -> Book:
    return Book()


@pytest.mark.parametrize(
    ("zone", "at", "odd"),
    [
        ("America/New_York", "02:15", {"2027-03-14": "03:00"}),
        ("Africa/Accra", "02:15", {}),
        ("Australia/Lord_Howe", "02:15", {"2027-10-03": "02:30"}),
        ("America/New_York", "01:30", {}),  # twice on 2027-11-07
        ("Australia/Lord_Howe", "01:45", {}),  # twice on 2027-04-04
    ],
)
async def test_a_year_of_local_times(book: Book, zone: str, at: str, odd: dict[str, str]) -> None:
    given = patient(rule(text="FREQ=DAILY;COUNT=365", start=f"2027-01-01T{at}"), zone=zone)
    seen = await book.kept(given, start=datetime(2026, 12, 31, tzinfo=UTC))
    days = [datetime(2027, 1, 1) + DAYS * n for n in range(365)]
    went = [moment.astimezone(ZoneInfo(zone)) for moment, _ in book.started]
    assert [f"{each:%Y-%m-%d %H:%M:%S}" for each in went] == [
        f"{day:%Y-%m-%d} {odd.get(f'{day:%Y-%m-%d}', at)}:00" for day in days
    ]
    assert all(each.fold == 0 for each in went), "of two, the first"
    assert book.ids == [f"m/{day:%Y-%m-%d}T{at}" for day in days]
    assert (seen.states, seen.runs > 3) == ([COMPLETED], True)


async def test_a_year_is_the_same_whenever_it_goes_on_in_a_new_run(book: Book) -> None:
    given = patient(rule(text="FREQ=WEEKLY;BYDAY=MO,TH;COUNT=105"))
    seen = await book.kept(given, renew_at_every_wait=True)
    other = Book()
    await other.kept(given)
    assert (book.ids, len(book.ids), seen.states) == (other.ids, 104, [COMPLETED])
    assert seen.runs > 100


async def test_on_february_29(book: Book) -> None:
    await book.kept(patient(rule(text="FREQ=YEARLY;COUNT=2", start="2028-02-29T08:00")))
    assert book.ids == ["m/2028-02-29T08:00", "m/2032-02-29T08:00"]


async def test_it_looks_ahead_anew_each_week_since_the_law_of_a_zone_may_change(book: Book) -> None:
    await book.kept(patient(rule(text="FREQ=MONTHLY;COUNT=3", start="2027-04-01T08:00")))
    gaps = [later.now - earlier.now for earlier, later in zip(book.turns, book.turns[1:], strict=False)]
    assert max(gaps) <= 7 * DAYS


BEFORE = timedelta(minutes=20 * 60) - timedelta(seconds=1)
"""From noon to one second before 08:00."""


async def test_a_message_one_second_before_holds_for_this_dose(book: Book) -> None:
    new = Change(phone=Private("+12025550199"), channel="call", language="es")
    await book.kept(patient(rule(text="FREQ=DAILY;COUNT=3")), At(BEFORE, "changed", new))
    told = [(each.dose.to.open(), each.dose.channels[0], each.dose.text.open()) for _, each in book.started]
    assert told == [("+12025550199", "call", "Es hora de tomar: Metformin.")] * 2


async def test_another_plan_one_second_before_holds_for_this_dose(book: Book) -> None:
    new = change(rule("other", "FREQ=DAILY;COUNT=1", "2027-03-02T08:00"))
    await book.kept(patient(), At(BEFORE, "changed", new))
    assert book.ids == ["other/2027-03-02T08:00"]


def change(*rules: Rule) -> Change:
    """A change of plan."""
    return Change.model_validate({"plan": Plan(rules=rules).model_dump()})


def test_a_snapshot_leaves_out_the_plans_that_held_the_shortest_where_it_has_no_room_for_all() -> None:
    def asked(minutes: int, made: Change | None = None) -> Asked:
        return Asked(at=NOON + timedelta(minutes=minutes), change=made, paused=None if made else True)

    plans = [change(rule(what=Private(letter * 300_000))) for letter in "abcd"]
    moved = plans[2].model_copy(update={"zone": "Europe/Berlin"})
    waiting = [asked(0, plans[0]), asked(9, plans[1]), asked(10), asked(30, moved), asked(31, plans[3])]
    kept = bounded(waiting)
    assert [(each.at, each.paused) for each in kept] == [(each.at, each.paused) for each in waiting]
    given = [each.change and each.change.model_fields_set for each in kept]
    assert given == [set(), {"plan"}, None, {"zone"}, {"plan"}]
    assert bounded(waiting[:2]) == tuple(waiting[:2])
    too_large = asked(0, plans[0].model_copy(update={"phone": Private("1" * 700_000)}))
    assert bounded([too_large]) == (too_large,)


async def test_changes_of_a_large_plan_that_wait_are_executed(book: Book) -> None:
    large = [change(rule(f"m{n}", what=Private("x" * 500_000))) for n in range(6)]
    messages = [At(timedelta(minutes=1), "changed", each) for each in large]
    script = {TURN: [After(timedelta(minutes=2), book.turn), *[book.turn] * 20]}
    seen = await rehearse(DosageReminders, patient(), script, messages=messages, entity_id="jo", allow_unused=True)
    assert seen.snapshot["patient"]["plan"]["rules"][0]["id"] == "m5"
    assert seen.snapshot["asked"] == []


@pytest.mark.parametrize("said", ["pause", "sign_off"])
async def test_a_word_one_second_before_stops_this_dose(book: Book, said: str) -> None:
    seen = await book.kept(patient(rule(text="FREQ=DAILY;COUNT=2")), At(BEFORE, said))
    assert (book.ids, seen.states) == ([], [PAUSED] if said == "pause" else [ENDED])


async def test_a_dose_due_during_a_pause_is_not_sent_later(book: Book) -> None:
    two_days = At(2 * DAYS, "pause"), At(4 * DAYS, "resume")
    seen = await book.kept(patient(rule(text="FREQ=DAILY;COUNT=7")), *two_days)
    assert book.ids == [f"m/2027-03-{day:02}T08:00" for day in (2, 3, 6, 7)]
    assert seen.states == [PAUSED, ACTIVE, COMPLETED]
    assert book.left == {f"m/2027-03-{day:02}T08:00": ("withdrawn", "the patient had paused") for day in (4, 5)}


@pytest.mark.parametrize(("said", "why"), [("pause", "has paused"), ("sign_off", "has signed off")])
async def test_doses_under_way_are_withdrawn(book: Book, said: str, why: str) -> None:
    await book.kept(patient(rule(text="FREQ=DAILY;COUNT=3")), At(BEFORE + timedelta(minutes=10), said))
    assert book.ids == ["m/2027-03-02T08:00"]
    [(doses, told)] = book.withdrawn
    assert (doses, why in told) == (("jo/m/2027-03-02T08:00",), True)


async def test_doses_under_way_are_withdrawn_by_a_cancel(book: Book) -> None:
    seen = await book.kept(patient(), At(BEFORE + timedelta(minutes=10), "cancel", OperatorRequest(by="ann")))
    assert ([doses for doses, _ in book.withdrawn], seen.end) == ([("jo/m/2027-03-02T08:00",)], ENDED)


async def test_doses_that_are_over_are_not_withdrawn(book: Book) -> None:
    await book.kept(patient(), At(BEFORE + timedelta(hours=2), "sign_off"))
    assert (len(book.ids), book.withdrawn) == (1, [])


async def test_a_patient_who_moves_is_reminded_by_the_new_zone(book: Book) -> None:
    moved = At(2 * DAYS, "changed", Change(zone="America/New_York"))
    await book.kept(patient(rule(text="FREQ=DAILY;COUNT=4")), moved)
    at = [f"{moment:%d %H:%M}" for moment, _ in book.started]
    assert at == ["02 08:00", "03 08:00", "04 13:00"]


async def test_a_dose_is_not_sent_twice_to_a_patient_who_moves_west_after_it(book: Book) -> None:
    moved = At(BEFORE + timedelta(minutes=30), "changed", Change(zone="America/New_York"))
    await book.kept(patient(rule(text="FREQ=DAILY;COUNT=3")), moved)
    assert book.ids == ["m/2027-03-02T08:00", "m/2027-03-03T08:00"]


@pytest.mark.parametrize(("late", "first"), [(30, "01"), (90, "02")])
async def test_a_patient_who_moves_east_gets_the_dose_that_is_still_of_use_there(
    book: Book, late: int, first: str
) -> None:
    """It is not 08:00 in New York yet; in Accra it was."""
    midnight, moved = (
        NOON - timedelta(hours=12),
        At(timedelta(hours=8) + timedelta(minutes=late), "changed", Change(zone="Africa/Accra")),
    )
    await book.kept(patient(rule(text="FREQ=DAILY;COUNT=2"), zone="America/New_York"), moved, start=midnight)
    moment, dose = book.started[0]
    assert dose.id == f"jo/m/2027-03-{first}T08:00"
    assert dose.dose.openings[0].until > moment


async def test_a_wrong_zone_that_is_put_right_costs_no_dose(book: Book) -> None:
    wrong = (
        At(timedelta(hours=1), "changed", Change(zone="Asia/Tokyo")),
        At(timedelta(hours=1.1), "changed", Change(zone="Africa/Accra")),
    )
    await book.kept(patient(rule(text="FREQ=DAILY;COUNT=3")), *wrong, start=NOON + timedelta(hours=12))
    assert book.ids == ["m/2027-03-02T08:00", "m/2027-03-03T08:00"]
    assert all(dose.dose.openings[0].until > moment for moment, dose in book.started)


async def test_two_drugs_at_one_time_are_two_doses(book: Book) -> None:
    await book.kept(patient(rule("a", "FREQ=DAILY;COUNT=2"), rule("b", "FREQ=DAILY;COUNT=2")))
    assert book.ids == ["a/2027-03-02T08:00", "b/2027-03-02T08:00"]


async def test_after_a_long_outage_what_was_missed_is_started_to_expire_and_the_next_one_is_in_time(book: Book) -> None:
    """The workflow's clock stands while nobody works for it: the turn comes a month late."""
    many = patient(rule(text="FREQ=HOURLY;INTERVAL=8;COUNT=90", start="2027-03-01T08:00"))
    turn = Turn(patient=many, upto=Upto(at=NOON), until=NOON + 25 * DAYS, now=NOON + 25 * DAYS)
    one = agenda("jo", turn)
    assert (len(one.starting), one.ahead.more, one.ahead.next_at) == (AT_ONCE, True, None)
    rest = agenda("jo", turn.model_copy(update={"upto": one.ahead.upto}))
    assert (len(rest.starting), rest.ahead.more) == (75 - AT_ONCE, False)
    assert rest.ahead.next_at == NOON + 25 * DAYS + timedelta(hours=4)
    assert not any(each.until > turn.now for dose in (*one.starting, *rest.starting) for each in dose.dose.openings)


def test_a_turn_of_the_longest_outage_is_short() -> None:
    """Of fifty hourly rules after a year, 438,000 doses."""
    rules = [rule(f"r{n}", "FREQ=HOURLY", "2026-01-01T08:00") for n in range(50)]
    asked = Turn(patient=patient(*rules), upto=Upto(at=NOON), until=NOON + 365 * DAYS, now=NOON + 365 * DAYS)
    began = time.process_time()
    sent = agenda("jo", asked)
    withheld = agenda("jo", asked.model_copy(update={"withheld": "the patient had paused"}))
    assert time.process_time() - began < 2, "a step of 8 s, in which nothing else runs"
    assert (len(sent.starting), sent.ahead.more, sent.ahead.upto.at) == (AT_ONCE, True, NOON + timedelta(hours=1))
    assert (len(withheld.not_started), withheld.ahead.more) == (NOTED_AT_ONCE, True)
    assert withheld.ahead.upto.at == NOON + timedelta(hours=20)


async def test_a_late_dose_may_be_sent_within_its_window() -> None:
    due = datetime(2027, 3, 2, 8, 0, tzinfo=UTC)
    [dose] = agenda("jo", turn_of(patient(), due + timedelta(minutes=59))).starting
    assert [(each.start, each.until) for each in dose.dose.openings] == [(due, due + timedelta(hours=1))]


async def test_quiet_hours_across_midnight(book: Book) -> None:
    night = {"start": "22:00", "end": "07:00"}
    given = patient(
        rule("evening", "FREQ=DAILY;COUNT=2", "2027-03-01T21:30"),
        rule("night", "FREQ=DAILY;COUNT=2", "2027-03-01T23:00"),
        rule("morning", "FREQ=DAILY;COUNT=2", "2027-03-01T06:30"),
        quiet_hours=night,
    )
    await book.kept(given)
    allowed = {
        each.id.split("/")[1]: [(f"{one.start:%H:%M}", f"{one.until:%H:%M}") for one in each.dose.openings]
        for _, each in book.started
    }
    assert allowed == {"evening": [("21:30", "22:00")], "night": [], "morning": [("07:00", "07:30")]}


async def test_jitter_is_declared_and_stays_inside_the_window(book: Book) -> None:
    given = patient(rule(text="FREQ=DAILY;COUNT=200", spread=timedelta(minutes=10), window=timedelta(minutes=30)))
    await book.kept(given)
    late = [moment - each.dose.due for moment, each in book.started]
    assert timedelta(0) <= min(late) < timedelta(minutes=1)
    assert timedelta(minutes=9) < max(late) < timedelta(minutes=10)
    assert len(book.ids) == len(set(book.ids)) == 199


def test_jitter_leaves_time_to_send_before_the_quiet_hours_and_spreads_those_that_wait_for_their_end() -> None:
    night = {"start": "22:00", "end": "07:00"}
    late = patient(rule("late", start="2027-03-01T21:58", spread=timedelta(minutes=20)), quiet_hours=night)
    early = patient(
        rule("early", start="2027-03-02T03:00", spread=timedelta(minutes=20), window=timedelta(hours=6)),
        quiet_hours=night,
    )
    evening, morning = NOON + timedelta(hours=9) + timedelta(minutes=58), NOON + timedelta(hours=19)
    for given, start, room in ((late, evening, timedelta(minutes=2)), (early, morning, timedelta(minutes=20))):
        after = []
        for number in range(100):
            [dose] = agenda(f"p{number}", turn_of(given, NOON + timedelta(hours=20))).starting
            [opening] = dose.dose.openings
            after.append(opening.start - start)
            assert opening.start < opening.until
        assert timedelta(0) <= min(after) < room / 5
        assert room * 0.8 < max(after) < room


async def test_a_dose_that_only_waits_for_its_turn_is_not_lost_by_a_move(book: Book) -> None:
    given = patient(rule(text="FREQ=DAILY;COUNT=3", spread=timedelta(minutes=50)))
    moved = At(BEFORE + timedelta(seconds=2), "changed", Change(zone="Pacific/Auckland"))
    await book.kept(given, moved)
    [(first, dose), *_] = book.started
    assert (dose.id, first - dose.dose.due) == ("jo/m/2027-03-02T08:00", timedelta(seconds=1))


def spread(**more: Any) -> Rule:
    """Due at 08:00, and started at 08:04:43."""
    return rule(text="FREQ=DAILY;COUNT=3", spread=timedelta(minutes=6), **more)


async def test_a_dose_that_waits_for_its_turn_is_not_lost_by_another_plan(book: Book) -> None:
    """What was due belongs to the plan that held when it was due."""
    others = rule("other", "FREQ=DAILY;COUNT=1", "2027-03-02T08:00"), rule("m", "FREQ=DAILY", "2027-04-01T09:00")
    for number, new in enumerate(others):
        one = Book()
        await one.kept(
            patient(spread()), At(BEFORE + timedelta(minutes=2), "changed", change(new)), At(9 * DAYS, "sign_off")
        )
        assert (number, one.ids) == (number, ["m/2027-03-02T08:00"])


@pytest.mark.parametrize(
    "new",
    [{"spread": timedelta(minutes=1)}, {"window": timedelta(minutes=50)}, {"spread": timedelta(minutes=0)}],
    ids=str,
)
async def test_a_dose_is_not_lost_where_it_should_have_gone_already(book: Book, new: dict[str, Any]) -> None:
    """Its rule has a shorter spread now, and something else was dealt with since."""
    given = spread(), rule("b", "FREQ=DAILY;COUNT=2", "2027-03-01T08:01")
    other = change(given[0].model_copy(update=new), given[1])
    await book.kept(patient(*given), At(BEFORE + timedelta(minutes=2), "changed", other))
    assert sorted(book.ids) == ["b/2027-03-02T08:01", "m/2027-03-02T08:00", "m/2027-03-03T08:00"]


async def test_a_patient_who_signs_up_before_a_dose_gets_it(book: Book) -> None:
    given = patient(spread(), rule("b", "FREQ=DAILY;COUNT=1"))
    await book.kept(given, start=NOON + BEFORE + timedelta(minutes=1))
    assert book.ids == ["m/2027-03-02T08:00", "m/2027-03-03T08:00"]


async def test_quiet_hours_that_are_new_lose_no_dose(book: Book) -> None:
    night = Change.model_validate({"quiet_hours": {"start": "07:00", "end": "08:30"}})
    await book.kept(patient(spread()), At(BEFORE + timedelta(minutes=2), "changed", night))
    assert book.ids == ["m/2027-03-02T08:00", "m/2027-03-03T08:00"]
    assert f"{book.started[0][1].dose.openings[0].start:%H:%M}" >= "08:30"


async def test_a_dose_due_during_a_pause_is_recorded_and_not_started(book: Book) -> None:
    """07:00 to 08:30; it would have gone later than that."""
    given = patient(spread().model_copy(update={"spread": timedelta(minutes=59)}))
    said = At(BEFORE - timedelta(minutes=60), "pause"), At(BEFORE + timedelta(minutes=1), "resume")
    await book.kept(given, *said)
    assert book.ids == ["m/2027-03-03T08:00"]
    assert book.left == {"m/2027-03-02T08:00": ("withdrawn", "the patient had paused")}


@pytest.mark.parametrize(("said", "why"), [("pause", "has paused"), ("sign_off", "has signed off")])
async def test_a_dose_that_waits_for_its_turn_leaves_a_record_when_it_is_not_wanted(
    book: Book, said: str, why: str
) -> None:
    await book.kept(
        patient(rule(text="FREQ=DAILY;COUNT=2", spread=timedelta(minutes=50))), At(BEFORE + timedelta(minutes=1), said)
    )
    assert book.left == {"m/2027-03-02T08:00": ("withdrawn", f"the patient {why}")}


async def test_a_move_east_starts_what_is_still_of_use_however_recently_it_looked(book: Book) -> None:
    """In New York it is 07:30, and something else was just due there; where the patient lands it is 08:30."""
    given = rule("b", "FREQ=DAILY;COUNT=1", "2027-03-01T07:25"), rule("m", "FREQ=DAILY;COUNT=2", "2027-03-01T08:00")
    moved = At(timedelta(hours=0.5), "changed", Change(zone="America/Halifax"))
    await book.kept(patient(*given, zone="America/New_York"), moved, start=NOON)
    assert book.ids == ["b/2027-03-01T07:25", "m/2027-03-01T08:00", "m/2027-03-02T08:00"]


async def test_a_move_east_past_a_window_leaves_a_record(book: Book) -> None:
    moved = At(timedelta(hours=0.5), "changed", Change(zone="Europe/Berlin"))
    await book.kept(patient(rule(text="FREQ=DAILY;COUNT=2"), zone="America/New_York"), moved, start=NOON)
    assert book.ids == ["m/2027-03-02T08:00"]
    assert book.left == {"m/2027-03-01T08:00": ("expired", "the patient's clock was put past it, as by a move")}


async def test_more_than_one_turn_starts_are_all_started_before_a_move(book: Book) -> None:
    many = [rule(f"r{n}", "FREQ=DAILY;COUNT=4;BYHOUR=8;BYMINUTE=0,1", spread=timedelta(minutes=55)) for n in range(40)]
    await book.kept(patient(*many), At(BEFORE + timedelta(minutes=2), "changed", Change(zone="Pacific/Auckland")))
    assert {f"r{n}/2027-03-02T08:0{minute}" for n in range(40) for minute in (0, 1)} <= set(book.ids)


def since(minutes_before_eight: float) -> Since:
    return Since(at=NOON + BEFORE + timedelta(seconds=1) - timedelta(minutes=minutes_before_eight))


async def test_a_change_that_arrives_late_holds_from_when_it_was_made(book: Book) -> None:
    """A pause from 07:50 to 08:10 arrives at 08:40, and so does the plan of 07:59."""
    given = patient(
        rule(text="FREQ=DAILY;COUNT=2"),
        rule("late", "FREQ=DAILY;COUNT=2", "2027-03-01T08:30", spread=timedelta(minutes=59)),
    )
    new = rule("new", "FREQ=DAILY;COUNT=1", "2027-03-02T08:00"), rule("old", "FREQ=DAILY;COUNT=2", "2027-03-01T07:59")
    arrives = BEFORE + timedelta(minutes=35)
    await book.kept(
        given,
        At(arrives, "changed", Change.model_validate({"plan": Plan(rules=new).model_dump(), "at": since(1.5).at})),
    )
    assert book.ids == ["m/2027-03-02T08:00", "old/2027-03-02T07:59", "new/2027-03-02T08:00"]
    book = Book()
    await book.kept(given, At(arrives, "pause", since(10)), At(arrives, "resume", since(-5)), At(DAYS, "sign_off"))
    assert book.ids == ["m/2027-03-02T08:00", "late/2027-03-02T08:30"], "the first was started before the pause arrived"
    [(doses, _)] = book.withdrawn[:1]
    assert doses == ("jo/m/2027-03-02T08:00",)


async def test_a_resume_that_arrives_late_loses_no_dose_that_is_of_use(book: Book) -> None:
    given = patient(rule(text="FREQ=DAILY;COUNT=2"))
    await book.kept(given, At(timedelta(hours=1), "pause"), At(BEFORE + timedelta(minutes=20), "resume", since(5)))
    assert (book.ids, book.left) == (["m/2027-03-02T08:00"], {})


async def test_another_text_alone_changes_no_time(book: Book) -> None:
    given = patient(rule(text="FREQ=DAILY;COUNT=2", spread=timedelta(minutes=50)))
    other = rule(text="FREQ=DAILY;COUNT=2", spread=timedelta(minutes=50)).model_copy(
        update={"what": Private("Insulin")}
    )
    await book.kept(given, At(BEFORE + timedelta(seconds=2), "changed", change(other)))
    assert [(each.id, each.dose.text.open()) for _, each in book.started] == [
        ("jo/m/2027-03-02T08:00", "It is time to take: Insulin.")
    ]


async def test_a_new_rule_counts_from_now_on(book: Book) -> None:
    new = change(rule("new", "FREQ=DAILY;COUNT=4", "2027-03-01T10:00"))
    await book.kept(patient(), At(2 * DAYS, "changed", new))
    assert book.ids == ["m/2027-03-02T08:00", "m/2027-03-03T08:00", "new/2027-03-04T10:00"]


def with_rule(**fields: str) -> dict[str, Any]:
    given = {"id": "m", "rule": "FREQ=DAILY", "start": "2027-03-01T08:00", "what": "Metformin", **fields}
    return {"plan": {"rules": [given]}}


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "empty": ({"plan": {"rules": []}}, "plan.rules"),
    "no plan": ({"plan": None}, "plan"),
    "a list": ({"plan": [1, 2]}, "plan"),
    "unparsable": (with_rule(rule="EACH-DAY"), "EACH-DAY"),
    "never due": (with_rule(rule="FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"), "never due"),
    "no text": (with_rule(what=" "), "characters that print"),
    "no zone": ({"zone": "Mars/Olympus"}, "Mars/Olympus"),
    "no phone": ({"phone": "12"}, "phone"),
    "no language": ({"language": "tlh"}, "language"),
    "no channel": ({"channel": "pigeon"}, "channel"),
    "no quiet hours": ({"quiet_hours": {"start": "22:00", "end": "22:00"}}, "22:00"),
}


@pytest.mark.parametrize("kind", BAD)
async def test_a_bad_record_is_seen_in_its_own_state_and_can_be_mended(book: Book, kind: str) -> None:
    bad, reason = BAD[kind]
    given = Patient.model_validate({**patient().model_dump(mode="json"), **bad})
    good = patient(rule(text="FREQ=DAILY;COUNT=3"))
    mended = At(timedelta(minutes=5), "changed", Change.model_validate({key: getattr(good, key) for key in bad}))
    seen = await book.kept(given)
    assert (seen.states, seen.end) == ([UNUSABLE], None)
    assert seen.attention is not None
    assert reason in seen.attention
    assert "+12" not in seen.attention
    seen = await book.kept(given, mended, At(2 * DAYS, "sign_off"))
    assert seen.states[:2] == [UNUSABLE, ACTIVE]
    assert book.ids[0] == "m/2027-03-02T08:00"


@pytest.mark.parametrize("kind", [kind for kind in BAD if kind != "no text"])
def test_at_sign_up_it_is_refused_with_the_reason(kind: str) -> None:
    bad, reason = BAD[kind]
    with pytest.raises(ValueError, match=reason.replace(".", r"\.")) as refused:
        SignUp.model_validate({**patient().model_dump(mode="json"), **bad})
    assert "+12" not in str(refused.value)


KEY = "a:" + base64.b64encode(b"A" * 32).decode()
SEALED = "perdure-sealed:2:a:phone:AAECAwQFBgcICQoLZZzDBOPGuxNeVbDGqw7kNlwyhMHfk3Oh0XfmNA"
"""`+15550100123` of the patient jo, by that key."""


def turn_of(given: Patient, until: datetime) -> Turn:
    return Turn(patient=given, upto=Upto(at=NOON), until=until, now=until)


def sealed_turn(phone: str) -> Turn:
    return turn_of(Patient.model_validate({**patient().model_dump(mode="json"), "phone": phone}), NOON + DAYS)


def test_a_sealed_number_is_sealed_anew_for_its_dose_and_one_of_somebody_else_is_a_bad_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jo, al = Entity("dosage-reminders", "jo"), Entity("dosage-reminders", "al")
    with pytest.raises(UnknownKey):  # this worker has no key: the step is taken again, maybe by another
        problem_with(sealed_turn(SEALED))
    monkeypatch.setenv("PERDURE_KEYS", KEY)
    monkeypatch.setenv("PERDURE_SEAL", "true")
    with bound_to(jo):
        assert problem_with(sealed_turn(SEALED)) is None
        [dose] = agenda("jo", sealed_turn(SEALED)).starting
    assert dose.dose.to.sealed
    assert dose.dose.to.open(Entity("dose", dose.id), "to") == "+15550100123"
    with pytest.raises(Unopenable):
        dose.dose.to.open(jo)
    for whose, phone in ((al, SEALED), (jo, SEALED[:-4] + "AAAA")):
        with bound_to(whose):
            assert f"can't be opened: the key 'a' does not open it for {whose}" in str(problem_with(sealed_turn(phone)))


async def test_a_bad_message_stops_the_patient_visibly_until_it_is_mended(book: Book) -> None:
    bad = At(timedelta(hours=1), "changed", Change(plan={"rules": []}))
    good = At(2 * DAYS, "changed", change(rule(text="FREQ=DAILY;COUNT=4")))
    seen = await book.kept(patient(), bad, good)
    assert seen.states == [UNUSABLE, ACTIVE, COMPLETED]
    assert book.ids == ["m/2027-03-04T08:00"]


async def test_a_message_before_the_first_run_is_not_lost(book: Book) -> None:
    seen = await book.kept(patient(), At(timedelta(0), "sign_off"), At(timedelta(0), "pause"))
    assert (book.ids, seen.end) == ([], ENDED)


async def test_a_plan_that_is_through_waits_for_another_one(book: Book) -> None:
    """A prescription that is renewed."""
    last, new = patient(rule(text="FREQ=DAILY;COUNT=2")), change(rule("new", "FREQ=DAILY;COUNT=1", "2027-05-01T08:00"))
    seen = await book.kept(last, At(30 * DAYS, "changed", new), At(90 * DAYS, "sign_off"))
    assert (seen.states, book.ids) == (
        [COMPLETED, ACTIVE, COMPLETED, ENDED],
        ["m/2027-03-02T08:00", "new/2027-05-01T08:00"],
    )


async def test_the_last_dose_of_a_plan_can_be_withdrawn(book: Book) -> None:
    await book.kept(patient(rule(text="FREQ=DAILY;COUNT=2")), At(BEFORE + timedelta(minutes=30), "sign_off"))
    assert [doses for doses, _ in book.withdrawn] == [("jo/m/2027-03-02T08:00",)]


async def test_its_history_stays_short(book: Book) -> None:
    seen = await book.kept(patient(rule(text="FREQ=DAILY;COUNT=365")))
    assert 15 <= seen.runs <= 40
    assert not seen.effects, "no record is kept of each dose"
