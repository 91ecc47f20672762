"""docs/telemetry.md lists the spans of perdure/telemetry/names.py, and no others; the reference lists the metrics."""

from __future__ import annotations

import re
from pathlib import Path

from perdure.telemetry import names

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "telemetry.md").read_text()


def _rows(mark: str) -> list[list[str]]:
    """The cells of the table after a mark, its head first."""
    table = PAGE.partition(f"<!-- {mark} -->")[2].strip().partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()]


def test_the_name_of_each_metric_ends_in_its_unit() -> None:
    """The reference lists names, kinds and labels, and no unit."""
    assert [each.name for each in names.METRICS if each.unit and not each.name.endswith(f"_{each.unit}")] == []


def test_each_span_and_attribute_is_documented() -> None:
    head, _, *rows = _rows("spans")
    assert [row[0].split(" ")[0].strip("`") for row in rows] == list(names.SPANS)
    attributes = {attribute for row in (head, *rows) for attribute in re.findall(r"`(\S+)`", row[3])}
    assert attributes == set(names.ATTRIBUTES)


def test_no_label_could_be_an_id() -> None:
    allowed = {"lifecycle", "state", "effect", "lookup", "outcome", "answer", "kind", "task_queue"}
    assert {label for each in names.METRICS for label in each.labels} <= allowed
