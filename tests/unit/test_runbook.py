"""The runbook has a page for each finding, alert and incident, and the pages name what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from perdure._store.finding_kinds import KINDS
from perdure.cli import cli

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "runbook"
ALERTS = (ROOT / "infra" / "telemetry" / "alerts.yaml").read_text()
NAMES = re.findall(r"- alert: (\w+)", ALERTS)
INCIDENTS = ("key", "role")
WANTED = [
    *(f"finding-{kind.name}" for kind in KINDS),
    *(f"alert-{name}" for name in NAMES),
    *(f"incident-{name}" for name in INCIDENTS),
]
PAGES = sorted(each for each in FOLDER.glob("*.md") if each.name != "README.md")
_SAID = re.compile(r"(?:^\$ |`)perdure ([a-z-]+)(?: ([a-z-]+))?", re.MULTILINE)


def test_each_finding_alert_and_incident_has_its_page_and_there_is_no_other() -> None:
    assert [page.stem for page in PAGES] == sorted(WANTED)


def test_the_overview_leads_to_each_page_with_what_it_is_about() -> None:
    overview = (FOLDER / "README.md").read_text()
    rows = dict(re.findall(r"^\| \[`\w+`\]\(([\w-]+)\.md\) \| ([^|]+) \|", overview, re.MULTILINE))
    assert list(rows) == WANTED
    assert [rows[f"finding-{kind.name}"] for kind in KINDS] == [kind.meaning for kind in KINDS]


def test_the_overview_says_of_every_kind_what_is_seen_and_done_as_the_code_does() -> None:
    page = (FOLDER / "README.md").read_text()
    rows = re.findall(r"^\| \[`(\w+)`\]\(finding-(\w+)\.md\) \| (.+?) \| (.+?) \|$", page, re.MULTILINE)
    assert [row[:3] for row in rows] == [(kind.name, kind.name, kind.meaning) for kind in KINDS]
    assert {name for name, _, _, done in rows if done.startswith("reported")} == {
        kind.name for kind in KINDS if not kind.mends
    }


def test_each_alert_leads_to_its_page() -> None:
    assert re.findall(r"^ +runbook: (\S+)$", ALERTS, re.MULTILINE) == [
        f"docs/runbook/alert-{each}.md" for each in NAMES
    ]


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_each_page_says_how_to_see_it_and_what_to_do_and_not_to_do(page: Path) -> None:
    text = page.read_text()
    assert text.startswith(f"# `{page.stem.partition('-')[2]}`: ")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["See it", "What to do", "What not to do"]


def test_the_commands_that_they_name_are_there() -> None:
    verbs: dict[str, Any] = typer.main.get_command(cli).commands  # type: ignore[attr-defined]
    named = {each for page in PAGES for each in _SAID.findall(page.read_text())}
    assert len(named) > 10
    for verb, further in named:
        assert verb in verbs, f"perdure {verb}"
        assert further in getattr(verbs[verb], "commands", {further: None}), f"perdure {verb} {further}"
