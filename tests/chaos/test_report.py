"""The report of a chaos run names the files with the histories of the entities that have a finding."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

from rich.console import Console

from tests.chaos import report
from tests.chaos.audit import Finding, Verdict
from tests.chaos.plan import make_plan
from tests.chaos.run import Outcome

FILE = "build/chaos/histories/generated-328-run-1.json"


def test_each_form_of_the_report_says_where_the_histories_are(tmp_path: Path) -> None:
    found = Verdict(findings=[Finding("lost", "generated/328", "has not ended")])
    outcome = Outcome(make_plan(1, 5.0, 10), found, details={"generated/328": {"histories": [FILE]}})
    console = Console(file=StringIO(), width=200)

    report.write(outcome, tmp_path)
    report.show(outcome, console)

    kept = json.loads((tmp_path / "chaos.json").read_text())
    assert kept["details"]["generated/328"]["histories"] == [FILE]
    assert f"<li><code>{FILE}</code></li>" in (tmp_path / "chaos.html").read_text()
    assert f"history: {FILE}" in console.file.getvalue()  # type: ignore[attr-defined]
    assert FILE in report.text(outcome)


def test_without_a_finding_there_is_no_word_of_histories(tmp_path: Path) -> None:
    report.write(Outcome(make_plan(1, 5.0, 10)), tmp_path)
    assert "Whole histories" not in (tmp_path / "chaos.html").read_text()
