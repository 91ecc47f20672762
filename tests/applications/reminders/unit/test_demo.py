"""`make demo-reminders` counts correctly: its own list of doses is right, and it finds each kind of mistake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from activities.reminders.contracts.calendar.occurrences import occurrences
from activities.reminders.contracts.plan import Plan
from infra.demos.reminders_patients import NEW_YORK, Day, Patient, the_day
from infra.demos.reminders_record import Count, SeenDose, counted, reference

SPRING, AUTUMN = datetime(2026, 11, 21, tzinfo=UTC), datetime(2027, 6, 1, tzinfo=UTC)
DAY = the_day(14, SPRING)


def _told(day: Day) -> list[SeenDose]:
    """As if all had gone well."""
    return [
        SeenDose(each.id, each.id[-5:], each.due, each.due, "sent", None, ("sms",), (), None, False, False, None)
        for each in day.doses
    ]


def _counted(doses: Sequence[SeenDose], *, more: Sequence[str] = ()) -> Count:
    accepted = [reference(each.id, channel) for each in doses for channel in each.by]
    telephony: Any = SimpleNamespace(references=dict.fromkeys((*accepted, *more), 1))
    return counted(DAY, doses, telephony, 1, 39.0)


@pytest.mark.parametrize("now", [SPRING, AUTUMN])
def test_its_own_list_of_doses_is_that_of_the_calendar(now: datetime) -> None:
    day = the_day(50, now)
    begin, found = day.begins - timedelta(days=1), []
    for patient in day.patients:
        if patient.phone.startswith("+") and patient.change is None:
            found += [(f"{patient.id}/{rule}", at) for rule, at in _by_the_calendar(patient, day, begin)]
    unchanged = {each.id for each in day.patients if each.change is None}
    expected = [(each.id, each.due) for each in day.doses if each.id.partition("/")[0] in unchanged]
    assert sorted(found) == sorted(expected)


def _by_the_calendar(patient: Patient, day: Day, begin: datetime) -> list[tuple[str, datetime]]:
    plan = Plan.model_validate_json(patient.row(day.date)["plan"])
    dues = [due for rule in plan.rules for due in occurrences(rule, patient.zone, begin)]
    return [(f"{due.rule}/{due.local:%Y-%m-%dT%H:%M}", due.at) for due in dues]


def test_the_day_is_one_on_which_new_york_changes_its_clocks() -> None:
    assert [str(the_day(14, now).date) for now in (SPRING, AUTUMN)] == ["2027-03-14", "2027-11-07"]


def test_a_faultless_day_has_no_problems() -> None:
    count = _counted(_told(DAY))
    assert (count.doses, count.sent, count.wrong) == (len(DAY.doses), len(DAY.doses), False)


def test_a_dose_that_is_not_on_record_is_lost() -> None:
    count = _counted(_told(DAY)[1:])
    assert (count.lost, count.wrong) == (1, True)


def test_a_dose_that_is_on_record_as_sent_and_unknown_to_the_provider_is_lost() -> None:
    first, *others = _told(DAY)
    count = _counted([replace(first, by=()), *others])
    assert (count.lost, count.wrong) == (1, True)


@pytest.mark.parametrize("by", [("sms", "sms"), ("sms", "call")])
def test_a_dose_that_was_accepted_twice_is_seen(by: tuple[str, ...]) -> None:
    first, *others = _told(DAY)
    count = _counted([replace(first, by=by), *others])
    assert (count.twice, count.wrong) == (1, True)


def test_what_was_accepted_and_belongs_to_no_dose_is_seen() -> None:
    count = _counted(_told(DAY), more=["7K3Q9MXD"])
    assert (count.twice, count.wrong) == (1, True)


def test_a_dose_that_nobody_is_due_is_seen() -> None:
    first, *others = _told(DAY)
    count = _counted([first, replace(first, id="patient-99/at-0800/2027-03-14T08:00"), *others])
    assert (count.unasked, count.wrong) == (1, True)


@pytest.mark.parametrize("state", ["refused", "withdrawn", "expired"])
def test_a_dose_that_has_gone_and_is_on_record_as_not_sent_is_seen(state: str) -> None:
    first, *others = _told(DAY)
    count = _counted([replace(first, state=state), *others])
    assert (count.unasked, count.wrong) == (1, True)


def test_a_dose_that_expired_in_doubt_may_have_gone() -> None:
    first, *others = _told(DAY)
    count = _counted([replace(first, state="expired", in_doubt=True), *others])
    assert (count.in_doubt, count.wrong) == (1, False)


def test_a_dose_that_ended_in_error_is_wrong() -> None:
    first, *others = _told(DAY)
    assert _counted([replace(first, state="error", by=()), *others]).wrong


@pytest.mark.parametrize(
    ("now", "said"), [(SPRING, "there is no 02:30 on that day"), (AUTUMN, "01:30 comes twice on that day")]
)
def test_it_is_said_where_the_clocks_make_a_dose_special(now: datetime, said: str) -> None:
    day = the_day(14, now)
    doses = [
        replace(each, due=each.due.astimezone(ZoneInfo(zone)), ended=each.due.astimezone(ZoneInfo(zone)))
        for each, zone in zip(_told(day), (dose.zone for dose in day.doses), strict=True)
        if zone == NEW_YORK
    ]
    moved = {each.id for each in day.doses if each.moved}
    assert [each.remark for each in doses if each.remark and each.id not in moved] == [said]
