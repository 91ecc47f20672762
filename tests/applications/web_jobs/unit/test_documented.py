"""activities/web_jobs/README.md says of statuses, defaults and receipts what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from activities.web_jobs.children import Listing
from activities.web_jobs.contracts import Answer
from activities.web_jobs.outcomes import TABLE, Verdict, verdict
from activities.web_jobs.settings import WebSettings

PAGE = (Path(__file__).parents[4] / "activities" / "web_jobs" / "README.md").read_text()
SAID = {
    "done": {Verdict.DONE},
    "not done": {Verdict.NOT_DONE},
    "not done: the page refuses the workers, not the job": {Verdict.OURS},
    "refused": {Verdict.REFUSED},
    "refused; a repeat in doubt": {Verdict.REFUSED_FIRST, Verdict.MOVED},
    "in doubt": {Verdict.DOUBT},
    "in doubt where an attempt was begun before, else not done": {Verdict.AT_WORK},
}
_CLASSES = {"2xx": 204, "other 4xx": 418, "other 5xx": 500}


def _rows() -> dict[str, str]:
    """Outcome by answer, as the table has them."""
    section = PAGE.partition("## What a page may answer")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|", section, re.MULTILINE))


def _statuses() -> dict[int, str]:
    """But for those that a type names."""
    rows = [(answer, outcome) for answer, outcome in _rows().items() if "`" not in answer]
    return {int(each): outcome for answer, outcome in rows for each in re.findall(r"\b[345]\d\d\b", answer)}


@pytest.mark.parametrize("status", sorted(TABLE.keys() | _statuses().keys()))
def test_a_status_means_what_the_page_says(status: int) -> None:
    assert verdict(status) in SAID[_statuses()[status]]


@pytest.mark.parametrize("name", _CLASSES)
def test_a_class_of_statuses_means_what_the_page_says(name: str) -> None:
    assert verdict(_CLASSES[name]) in SAID[_rows()[name]]


def test_a_status_that_the_type_names_means_not_done() -> None:
    [outcome] = [outcome for answer, outcome in _rows().items() if "`503`" in answer]
    assert verdict(503, (503,)) in SAID[outcome]


def test_the_defaults_are_those_of_the_page() -> None:
    most = re.search(r"`PERDURE_WEB_MOST_RESPONSE` \|.*\| ([\d,]+) \|$", PAGE, re.MULTILINE)
    listed = dict(re.findall(r"^\| `(window|tolerates)` \|.*\| (\d+) \|$", PAGE, re.MULTILINE))
    assert most is not None
    assert int(most[1].replace(",", "")) == WebSettings.model_fields["most_response"].default
    assert listed == {"window": str(Listing([]).window), "tolerates": str(Listing([]).tolerates)}


def test_the_receipt_that_a_person_gives_is_one() -> None:
    [given] = re.findall(r"^\$ echo '(.*)' \| perdure resolve web-job", PAGE, re.MULTILINE)
    assert Answer.model_validate_json(given) == Answer(status=200)
