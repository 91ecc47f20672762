"""activities/reminders/plans.md is right: each rule is due when the page says, and its examples answer as shown."""

from __future__ import annotations

import doctest
import json
import re
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from activities.reminders.contracts.calendar.occurrences import occurrences
from activities.reminders.contracts.calendar.openings import openings
from activities.reminders.contracts.plan import Plan, QuietHours, Rule, reason

PAGE = (Path(__file__).parents[4] / "activities" / "reminders" / "plans.md").read_text()
ROWS = re.findall(r"^\| ([^|]+) \| `(FREQ[^`]+)` \| `([^`]+)` \| ([^|]+) \|$", PAGE, re.MULTILINE)


def utc(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(year, month, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(("what", "rule", "start", "due"), ROWS, ids=[row[0] for row in ROWS])
def test_a_rule_to_copy_is_due_when_the_page_says(what: str, rule: str, start: str, due: str) -> None:
    given = Rule.model_validate({"id": "a", "rule": rule, "start": start, "what": what})
    expected = due.split(", ")
    found = occurrences(given, "UTC", utc(2026, 1, 1))
    assert [f"{each.local:%m-%d %H:%M}" for each, _ in zip(found, expected, strict=False)] == expected
    if "UNTIL" in rule or rule.endswith("COUNT=1"):
        assert len(list(occurrences(given, "UTC", utc(2026, 1, 1)))) == len(expected)


def test_the_page_has_rules_to_copy() -> None:
    assert len(ROWS) > 12


def test_the_plan_on_the_page_is_taken() -> None:
    [said] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert Plan.model_validate_json(said).rules[0].what.open() == json.loads(said)["rules"][0]["what"]


def test_the_examples_answer_as_the_page_shows() -> None:
    names = {each.__name__: each for each in (Plan, QuietHours, Rule, ValidationError, reason, occurrences, openings)}
    more: dict[str, Any] = {"time": time, "timedelta": timedelta, "utc": utc}
    example = doctest.DocTestParser().get_doctest(PAGE.replace("```", ""), {**names, **more}, "plans", "plans.md", 0)
    said: list[str] = []
    outcome = doctest.DocTestRunner().run(example, out=said.append)
    assert outcome.failed == 0, "".join(said)
    assert outcome.attempted > 8
