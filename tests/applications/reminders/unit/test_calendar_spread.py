"""How doses that are due at once are spread: for one dose always the same, evenly over many, never past the spread."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from activities.reminders.contracts.calendar.spread import spread_of
from activities.reminders.contracts.plan import Due, Rule

DUE = Due("morning", datetime(2026, 3, 1, 8), datetime(2026, 3, 1, 13, tzinfo=UTC))


def a_rule(spread: timedelta) -> Rule:
    given = {"id": "morning", "rule": "FREQ=DAILY", "start": "2026-03-01T08:00", "what": "x", "spread": spread}
    return Rule.model_validate(given)


def test_a_dose_is_spread_the_same_in_every_process_and_release() -> None:
    assert spread_of("p1", a_rule(timedelta(minutes=10)), DUE) == timedelta(microseconds=316_639_616)


def test_many_doses_are_spread_evenly_and_never_past_the_spread() -> None:
    rule = a_rule(timedelta(minutes=10))
    tenths = [0] * 10
    for number in range(5000):
        after = spread_of(f"p{number}", rule, DUE)
        assert timedelta(0) <= after < rule.spread
        tenths[after // timedelta(minutes=1)] += 1
    assert max(abs(each - 500) for each in tenths) < 100  # 4.7 standard deviations


def test_patient_rule_and_local_time_make_the_difference_and_the_zone_makes_none() -> None:
    rule = a_rule(timedelta(minutes=10))
    one = spread_of("p1", rule, DUE)
    moved = Due(DUE.rule, DUE.local, DUE.at + timedelta(hours=5))
    others = [
        ("p2", DUE),
        ("p1", Due("evening", DUE.local, DUE.at)),
        ("p1", Due("morning", datetime(2026, 3, 2, 8), DUE.at)),
    ]
    assert spread_of("p1", rule, moved) == one
    assert one not in [spread_of(patient, rule, due) for patient, due in others]


def test_without_a_spread_a_dose_goes_when_it_is_due() -> None:
    assert spread_of("p1", a_rule(timedelta(0)), DUE) == timedelta(0)
