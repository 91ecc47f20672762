"""What a run of the benchmark leaves: a table on the terminal, `build/bench.json`, and a plot in `build/bench.html`."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import plotly.graph_objects  # type: ignore[import-untyped]
import plotly.subplots  # type: ignore[import-untyped]
import psutil
from rich.console import Console
from rich.table import Table

from bench.cost.figures import KEYS, Verdict, listed
from bench.cost.measure import Plan

WORDS = {
    "runs_per_s": "runs/s",
    "server_cpu_s_per_1000": "Temporal, CPU s per 1,000 runs",
    "app_cpu_s_per_1000": "worker and app, CPU s per 1,000 runs",
    "db_cpu_s_per_1000": "PostgreSQL, CPU s per 1,000 runs",
    "history_events": "history events",
    "billable_actions": "billable actions of Temporal Cloud",
    "db_writes_per_run": "writes of its state",
    "transactions_per_run": "transactions that wrote",
    "p50_ms": "ms at 5 starts/s, p50",
    "p99_ms": "ms at 5 starts/s, p99",
    "p50_ms_tuned": "the same, prompt transfer queue, p50",
    "p99_ms_tuned": "the same, prompt transfer queue, p99",
}


@dataclass(frozen=True, slots=True)
class Result:
    """All that was found."""

    ways: Mapping[str, Mapping[str, float]]
    spread: Mapping[str, Mapping[str, Sequence[float]]]
    ratios: Mapping[str, float]
    gates: Sequence[Verdict]
    targets: Sequence[Verdict]
    plan: Plan


def write(result: Result, folder: Path) -> None:
    """Write `bench.json` and `bench.html` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = {way: {**found, "spread": result.spread[way]} for way, found in result.ways.items()}
    content |= {
        "ratios": result.ratios,
        "gates": listed(result.gates),
        "targets": listed(result.targets),
        "machine": {
            "cores": os.cpu_count(),
            "memory_gib": round(psutil.virtual_memory().total / 2**30),
            "system": platform.platform(terse=True),
            "load_at_end": [round(each, 1) for each in os.getloadavg()],
        },
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("temporalio", "asyncpg", "pydantic")},
        },
        "settings": {**asdict(result.plan), "p50_p99": "default server; *_tuned with a prompt transfer queue"},
    }
    (folder / "bench.json").write_text(json.dumps(content, indent=2) + "\n")
    _plot(result).write_html(folder / "bench.html", include_plotlyjs=True)


def show(result: Result) -> None:
    """Print the table, what must hold and what is wanted."""
    console = Console()
    table = Table(title="one comment notified: medians (least - most)")
    table.add_column("")
    for way in result.ways:
        table.add_column(way, justify="right")
    for key in KEYS:
        cells = []
        for way, found in result.ways.items():
            least, most = result.spread[way].get(key, (found[key], found[key]))
            span = f" ({least:.3g} - {most:.3g})" if least != most else ""
            cells.append(f"{found[key]:.3g}{span}")
        table.add_row(WORDS[key], *cells)
    console.print(table)
    for title, verdicts in (("must hold", result.gates), ("wanted", result.targets)):
        judged = Table("", "is", "should be", "", title=title)
        for each in verdicts:
            judged.add_row(each.name, f"{each.value:.3g}", each.wanted, "yes" if each.met else "NO")
        console.print(judged)


def _plot(result: Result) -> plotly.graph_objects.Figure:
    keys = ("runs_per_s", "server_cpu_s_per_1000", "app_cpu_s_per_1000", "db_cpu_s_per_1000", "p50_ms", "p50_ms_tuned")
    figure = plotly.subplots.make_subplots(rows=2, cols=3, subplot_titles=[WORDS[key] for key in keys])
    names = list(result.ways)
    for number, key in enumerate(keys):
        middle = [result.ways[way][key] for way in names]
        spans = [result.spread[way][key] for way in names]
        bars = plotly.graph_objects.Bar(
            x=names,
            y=middle,
            error_y={
                "type": "data",
                "array": [most - value for (_, most), value in zip(spans, middle, strict=True)],
                "arrayminus": [value - least for (least, _), value in zip(spans, middle, strict=True)],
            },
        )
        figure.add_trace(bars, row=number // 3 + 1, col=number % 3 + 1)
    figure.update_layout(showlegend=False, title="one comment notified: medians, least and most")
    return figure
