"""Writes perdure.json beside it, the Grafana dashboard: `python -m infra.telemetry.make_dashboard`.

The file is what is imported; this is what is edited. A test sees that they agree.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

TARGET = Path(__file__).with_name("perdure.json")

Query = tuple[str, str]
"""An expression of PromQL, and the legend of its series."""

_SCOPED = 'scope=~"$scope"'
_CHOSEN = 'lifecycle=~"$lifecycle"'
_SERIES = re.compile(r"\b((?:perdure|temporal)_\w+)(?:\{([^}]*)\})?")
_QUANTILE = "histogram_quantile({}, sum by (le{}) (rate({}_bucket{}[$__rate_interval])))"


def dashboard() -> dict[str, Any]:
    """The dashboard, as Grafana imports it; Grafana then requests the data source."""
    panels: list[dict[str, Any]] = []
    for title, row in _ROWS.items():
        top = max((panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels), default=0)
        panels.append(
            {"id": len(panels) + 1, "type": "row", "title": title, "gridPos": {"x": 0, "y": top, "w": 24, "h": 1}}
        )
        width = 24 // len(row)
        for place, (kind, heading, unit, queries) in enumerate(row):
            where = {"x": place * width, "y": top + 1, "w": width, "h": 4 if kind == "stat" else 8}
            panels.append(_panel(len(panels) + 1, kind, heading, unit, queries, where))
    return {
        "title": "Perdure",
        "uid": "perdure",
        "tags": ["perdure", "temporal"],
        "description": "Open lifecycles, effects in doubt, and the way to Temporal. Names: docs/telemetry.md.",
        "schemaVersion": 39,
        "version": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "editable": True,
        "graphTooltip": 1,
        "templating": {"list": [_SOURCE, _SCOPE, _LIFECYCLE]},
        "panels": panels,
    }


def _panel(
    number: int, kind: str, title: str, unit: str, queries: list[Query], where: dict[str, int]
) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${source}"}
    targets = [
        {"refId": chr(ord("A") + index), "datasource": source, "expr": _of_scope(expression), "legendFormat": legend}
        for index, (expression, legend) in enumerate(queries)
    ]
    defaults: dict[str, Any] = {"unit": unit, "min": 0}
    if kind == "stat":
        steps = [{"color": "green", "value": None}, {"color": "red", "value": 60 if unit == "s" else 1}]
        defaults |= {"thresholds": {"mode": "absolute", "steps": steps}}
    return {
        "id": number,
        "type": kind,
        "title": title,
        "datasource": source,
        "gridPos": where,
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {} if kind == "stat" else {"legend": {"displayMode": "table", "placement": "bottom"}},
    }


_SOURCE = {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _of_scope(expression: str) -> str:
    """The expression on the series of the scope that is chosen alone."""
    return _SERIES.sub(lambda found: f"{found[1]}{{{_SCOPED}{',' + found[2] if found[2] else ''}}}", expression)


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


_SCOPE = _variable("scope", "Scope", "label_values(perdure_read_timestamp_seconds, scope)")
_LIFECYCLE = _variable("lifecycle", "Lifecycle", f"label_values(perdure_open{{{_SCOPED}}}, lifecycle)")

_ROWS: dict[str, list[tuple[str, str, str, list[Query]]]] = {
    "Does anybody have to do something?": [
        ("stat", "Wait for a person to settle a doubt", "short",
         [(f"sum(max by (scope, lifecycle) (perdure_parked{{{_CHOSEN}}}))", "parked")]),
        ("stat", "Want a person", "short",
         [(f"sum(max by (scope, lifecycle) (perdure_attention{{{_CHOSEN}}}))", "attention")]),
        ("stat", "Stuck", "short", [(f"sum(max by (scope, lifecycle) (perdure_stuck{{{_CHOSEN}}}))", "stuck")]),
        ("stat", "Rejected", "short", [("sum(max by (scope, lifecycle, kind) (perdure_rejected))", "rejected")]),
        ("stat", "Findings", "short",
         [("sum(max by (scope, kind) (perdure_findings)) or vector(0)", "findings"),
          (f"sum(max by (scope, lifecycle, kind) (perdure_vanished{{{_CHOSEN}}}))", "lost their workflow")]),
        ("stat", "Last reconciliation", "s", [("max(perdure_reconciliation_age_seconds)", "age")]),
        ("stat", "Relay lag", "s", [("max(perdure_relay_lag_seconds)", "lag")]),
        ("stat", "Age of the readings", "s",
         [("time() - max(perdure_read_timestamp_seconds)", "database"),
          ("time() - max(perdure_temporal_answered_timestamp_seconds)", "Temporal")]),
    ],
    "Lifecycles": [
        ("timeseries", "Open, by state", "short",
         [(f"max by (scope, lifecycle, state) (perdure_open{{{_CHOSEN}}})", "{{lifecycle}} {{state}}")]),
        ("timeseries", "Longest in its state", "s",
         [(f"max by (scope, lifecycle, state) (perdure_oldest_seconds{{{_CHOSEN}}})", "{{lifecycle}} {{state}}")]),
        ("timeseries", "Mended by reconciliations", "short",
         [("sum by (kind) (increase(perdure_mended_total[1h]))", "{{kind}}")]),
        ("timeseries", "States entered", "ops",
         [(f"sum by (lifecycle, state) (rate(perdure_states_entered_total{{{_CHOSEN}}}[$__rate_interval]))",
           "{{lifecycle}} {{state}}")]),
    ],
    "Effects": [
        ("timeseries", "Attempts, by outcome", "ops",
         [(f"sum by (effect, outcome) (rate(perdure_attempts_total{{{_CHOSEN}}}[$__rate_interval]))",
           "{{effect}} {{outcome}}")]),
        ("timeseries", "Time of an attempt", "s",
         [(_QUANTILE.format(q, ", effect", "perdure_attempt_seconds", f"{{{_CHOSEN}}}"), f"{{{{effect}}}} p{name}")
          for q, name in (("0.5", "50"), ("0.99", "99"))]),
        ("timeseries", "In doubt", "short",
         [(f"max by (scope, lifecycle, effect) (perdure_in_doubt{{{_CHOSEN}}})", "{{lifecycle}} {{effect}}")]),
        ("timeseries", "Oldest doubt", "s",
         [(f"max by (scope, lifecycle, effect) (perdure_in_doubt_oldest_seconds{{{_CHOSEN}}})",
           "{{lifecycle}} {{effect}}")]),
        ("timeseries", "Look-ups, by answer", "ops",
         [(f"sum by (lookup, answer) (rate(perdure_look_ups_total{{{_CHOSEN}}}[$__rate_interval]))",
           "{{lookup}} {{answer}}")]),
        ("timeseries", "Expired, by whether in doubt", "short",
         [(f"sum by (effect, outcome) (increase(perdure_expired_total{{{_CHOSEN}}}[1h]))", "{{effect}} {{outcome}}")]),
    ],
    "Relay and database": [
        ("timeseries", "Outbox", "short",
         [("max(perdure_relay_waiting)", "rows waiting"), ("max(perdure_relay_unknown)", "known to no worker"),
          ("max(perdure_behind)", "app rows behind")]),
        ("timeseries", "Relay", "ops",
         [("sum by (kind) (rate(perdure_relay_delivered_total[$__rate_interval]))", "delivered {{kind}}"),
          ("sum by (kind) (rate(perdure_relay_postponed_total[$__rate_interval]))", "postponed {{kind}}"),
          ("sum by (kind) (rate(perdure_relay_rejected_total[$__rate_interval]))", "rejected {{kind}}")]),
        ("timeseries", "Group commit: time", "s",
         [(_QUANTILE.format(q, "", "perdure_commit_seconds", ""), f"p{name}")
          for q, name in (("0.5", "50"), ("0.99", "99"))]),
        ("timeseries", "Group commit: writes", "short",
         [(_QUANTILE.format("0.5", "", "perdure_commit_writes", ""), "p50"),
          ("sum(rate(perdure_commit_writes_sum[$__rate_interval])) / "
           "sum(rate(perdure_commit_writes_count[$__rate_interval]))", "mean")]),
    ],
    "Temporal": [
        ("timeseries", "Backlog of the task queues", "short",
         [("max by (scope, task_queue, kind) (perdure_task_queue_backlog)", "{{task_queue}} {{kind}}")]),
        ("timeseries", "Age of the backlog", "s",
         [("max by (scope, task_queue, kind) (perdure_task_queue_backlog_seconds)", "{{task_queue}} {{kind}}")]),
        ("timeseries", "Pollers", "short",
         [("max by (scope, task_queue, kind) (perdure_task_queue_pollers)", "{{task_queue}} {{kind}}")]),
        ("timeseries", "Workflow tasks that failed", "ops",
         [("sum by (workflow_type) (rate(temporal_workflow_task_execution_failed[$__rate_interval]))",
           "{{workflow_type}}")]),
    ],
    "Workers": [
        ("timeseries", "Slots", "short",
         [("sum by (worker_type) (temporal_worker_task_slots_used)", "{{worker_type}} used"),
          ("sum by (worker_type) (temporal_worker_task_slots_available)", "{{worker_type}} free")]),
        ("timeseries", "Tasks wait for a worker, p99", "s",
         [(_QUANTILE.format("0.99", "", f"temporal_{kind}_schedule_to_start_latency", ""), kind)
          for kind in ("workflow_task", "activity")]),
        ("timeseries", "Workflow tasks, p99", "s",
         [(_QUANTILE.format("0.99", ", workflow_type", "temporal_workflow_task_execution_latency", ""),
           "{{workflow_type}}")]),
        ("timeseries", "Workflows in memory", "short", [("sum(temporal_sticky_cache_size)", "cached")]),
    ],
}  # fmt: skip


if __name__ == "__main__":
    TARGET.write_text(json.dumps(dashboard(), indent=1) + "\n")
