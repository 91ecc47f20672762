"""Alert rules and dashboard: `promtool` accepts them, the alerts fire when they should, each name in them exists."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.promtool import obtain_promtool
from infra.telemetry.make_dashboard import TARGET, dashboard
from perdure.telemetry.names import METRICS, SCOPE, SDK_METRICS

FOLDER = TARGET.parent
ALERTS, TESTS = FOLDER / "alerts.yaml", FOLDER / "alerts_test.yaml"
_NAME = re.compile(r"\b(?:perdure|temporal)_\w+")
_OF_HISTOGRAM = re.compile("_(bucket|sum|count)$")
_RULE = re.compile(r"- alert: (\w+)")


def promtool(*arguments: str) -> str:
    """Run it; what it said, if it was content."""
    outcome = subprocess.run([str(obtain_promtool()), *arguments], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout


def expressions(panels: list[dict[str, Any]]) -> Iterator[str]:
    """What the panels ask Prometheus."""
    for panel in panels:
        for target in panel.get("targets", []):
            yield re.sub(r"\$(lifecycle|scope)", ".*", target["expr"]).replace("$__rate_interval", "5m")


def named(text: str) -> set[str]:
    """Metrics that a text names."""
    known = {each.name for each in METRICS}
    return {name if name in known else _OF_HISTOGRAM.sub("", name) for name in _NAME.findall(text)}


def test_the_alerts_are_silent_while_all_is_well_and_fire_when_it_is_not() -> None:
    assert "15 rules found" in promtool("check", "rules", str(ALERTS))
    assert "SUCCESS" in promtool("test", "rules", str(TESTS))


def test_each_alert_was_seen_to_fire() -> None:
    fired = set(re.findall(r'alertname="(\w+)",alertstate="firing"', TESTS.read_text()))
    assert fired == set(_RULE.findall(ALERTS.read_text()))


def test_prometheus_understands_what_each_panel_asks(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": each} for number, each in enumerate(expressions(dashboard()["panels"]))
    ]
    file = tmp_path / "panels.yaml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))  # JSON is YAML
    assert f"{len(rules)} rules found" in promtool("check", "rules", str(file))


def test_the_dashboard_that_is_imported_is_the_one_that_is_edited() -> None:
    assert json.loads(TARGET.read_text()) == dashboard(), "run: python -m infra.telemetry.make_dashboard"


def test_each_metric_that_a_rule_or_a_panel_names_exists_and_all_are_shown() -> None:
    in_panels = named(" ".join(expressions(dashboard()["panels"])))
    in_rules = named(" ".join(re.findall(r"^ +expr: (.*)$", ALERTS.read_text(), re.MULTILINE)))
    documented = {each.name for each in METRICS} | set(SDK_METRICS)
    assert in_panels == documented
    assert in_rules <= documented


@pytest.mark.parametrize("metric", METRICS, ids=lambda each: each.name)
def test_panels_and_rules_group_by_labels_that_a_metric_has(metric: Any) -> None:
    asked = [*expressions(dashboard()["panels"]), *re.findall(r"^ +expr: (.*)$", ALERTS.read_text(), re.MULTILINE)]
    for each in (each for each in asked if named(each) == {metric.name}):
        labels = {label for group in re.findall(r"by \(([\w, ]+)\)", each) for label in group.split(", ")}
        labels |= set(re.findall(r"(\w+)=~?\"", each))
        assert labels <= {*metric.labels, "le", SCOPE}, each


def test_every_rule_and_panel_keeps_installations_apart() -> None:
    for each in expressions(dashboard()["panels"]):
        assert len(_NAME.findall(each)) == each.count('scope=~"'), each
    rules = re.findall(r"^ +expr: (?:>-\n +)?(.*)$", ALERTS.read_text(), re.MULTILINE)
    assert [each for each in rules if "by (scope" not in each] == []


def test_the_dashboard_asks_which_data_source_to_use() -> None:
    imported = json.loads(TARGET.read_text())
    assert [each["type"] for each in imported["templating"]["list"]] == ["datasource", "query", "query"]
    sources = {panel["datasource"]["uid"] for panel in imported["panels"] if panel["type"] != "row"}
    assert sources == {"${source}"}
    places = [tuple(panel["gridPos"][side] for side in "xy") for panel in imported["panels"]]
    assert len(set(places)) == len(places)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in imported["panels"])
