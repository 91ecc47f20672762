"""activities/reminders/README.md says of columns, states, languages and signals what the code has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from activities.reminders.contracts.plan import Rule
from activities.reminders.contracts.reminders import LANGUAGES, Change
from activities.telephony.contracts import RETRY
from perdure import Lifecycle
from workflows.reminders.dosage_reminders import DosageReminders
from workflows.reminders.dose import DoseReminder

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "activities" / "reminders" / "README.md").read_text()
TABLES = (ROOT / "activities" / "reminders" / "tables.sql").read_text()


def _section(title: str) -> str:
    found = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    assert found, title
    return found


def _rows(section: str) -> dict[str, str]:
    return dict(re.findall(r"^\| `([^`|]+)` \| (.+?) \|", section, re.MULTILINE))


@pytest.mark.parametrize(
    ("title", "lifecycle"), [("Where a patient is", DosageReminders), ("What became of a dose", DoseReminder)]
)
def test_each_state_is_explained_and_no_other(title: str, lifecycle: type[Lifecycle[object, object]]) -> None:  # type: ignore[type-var]
    assert list(_rows(_section(title))) == [each.value for each in lifecycle.states]


def test_each_column_that_an_app_gives_is_explained() -> None:
    [body] = re.findall(r"create table if not exists reminders\.patient \((.*?)\n\);", TABLES, re.DOTALL)
    columns = set(re.findall(r"^    (\w+) ", body, re.MULTILINE))
    later = {"paused", "signed_off"}
    assert set(_rows(_section("Sign up"))) == columns - later - {"signed_up_at"}
    assert later <= set(re.findall(r"`(\w+)`", _section("What changes later")))


def test_the_languages_are_those_that_are_spoken() -> None:
    assert ", ".join(sorted(LANGUAGES)) in _rows(_section("Sign up"))["language"]


def test_the_page_lists_exactly_the_fields_of_a_change() -> None:
    told = set(
        re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (.+?) \|", _section("What changes later"), re.MULTILINE)))
    )
    assert set(Change.model_fields) - {"at"} == told - {"paused", "signed_off"}


def test_the_signals_are_those_that_a_patient_hears() -> None:
    said = _section("What changes later").partition("in Python")[2]
    assert set(re.findall(r"[`\"](changed|pause|resume|sign_off)[`\"]", said)) == {
        "changed",
        "pause",
        "resume",
        "sign_off",
    }
    assert all(
        hasattr(getattr(DosageReminders, each), "__temporal_signal_definition")
        for each in ("changed", "pause", "resume", "sign_off")
    )


def test_pauses_and_windows_are_the_defaults() -> None:
    first = RETRY.initial_interval.total_seconds()
    assert f"after {first:g}, {2 * first:g}, {4 * first:g} seconds, up to a minute" in PAGE
    assert (RETRY.backoff_coefficient, RETRY.maximum_interval.total_seconds()) == (2.0, 60.0)
    assert f"{Rule.model_fields['window'].default.total_seconds() / 60:g} minutes by default" in PAGE
