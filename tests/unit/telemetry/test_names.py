"""docs/telemetry.md lists the names in perdure/telemetry/names.py, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from perdure.telemetry import names

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "telemetry.md").read_text()


def _rows(mark: str) -> list[list[str]]:
    """The cells of the table after a mark."""
    table = PAGE.partition(f"<!-- {mark} -->")[2].strip().partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]


def test_each_metric_is_documented_as_it_is() -> None:
    declared = [
        [
            f"`{each.name}`",
            each.kind,
            each.unit or "-",
            ", ".join(f"`{label}`" for label in each.labels) or "-",
            each.meaning,
        ]
        for each in names.METRICS
    ]
    assert _rows("metrics") == declared


def test_each_span_and_attribute_is_documented() -> None:
    rows = _rows("spans")
    assert [row[0].split(" ")[0].strip("`") for row in rows] == list(names.SPANS)
    attributes = {attribute for row in rows for attribute in re.findall(r"`(\S+)`", row[3])}
    assert attributes == set(names.ATTRIBUTES)


def test_the_sdks_metrics_that_we_rely_on_are_documented() -> None:
    listed = PAGE.partition("<!-- sdk -->")[2].strip().partition("\n\n")[0]
    assert re.findall(r"`(\w+)`", listed) == list(names.SDK_METRICS)


def test_each_alert_is_documented() -> None:
    rules = re.findall(r"- alert: (\w+)", (ROOT / "infra" / "telemetry" / "alerts.yaml").read_text())
    assert re.findall(r"^\| `(Perdure\w+)` \|", PAGE, re.MULTILINE) == rules


def test_no_label_could_be_an_id() -> None:
    allowed = {"lifecycle", "state", "effect", "lookup", "outcome", "answer", "kind", "task_queue"}
    assert {label for each in names.METRICS for label in each.labels} <= allowed
