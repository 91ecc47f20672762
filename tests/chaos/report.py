"""The report of a run: `chaos.json` for programs, `chaos.html` for people, a table on the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

import plotly.graph_objects as go  # type: ignore[import-untyped]
from rich.console import Console
from rich.table import Table

from tests.chaos.plan import SHAPES
from tests.chaos.run import Outcome

_COLOURS = (
    "#c62828",
    "#ef6c00",
    "#8e24aa",
    "#1565c0",
    "#2e7d32",
    "#6d4c41",
    "#00838f",
    "#ad1457",
    "#9e9d24",
    "#455a64",
)


def as_data(outcome: Outcome) -> dict[str, Any]:
    """All of it as JSON data."""
    return {
        "seed": outcome.plan.seed,
        "verdict": "good" if not outcome.verdict.findings else "bad",
        "seconds": outcome.seconds,
        "seconds_of_peace": outcome.peace,
        "counts": outcome.counts,
        "findings": [asdict(finding) for finding in outcome.verdict.findings],
        "recovery": [asdict(clock) for clock in outcome.clocks],
        "faults": [
            {
                "planned": str(each.fault),
                "begun": round(each.begun - outcome.began, 2),
                "over": round(each.over - outcome.began, 2),
            }
            for each in outcome.happened
        ],
        "samples": [asdict(sample) for sample in outcome.samples],
        "plan": asdict(outcome.plan),
        "details": outcome.details,
    }


def write(outcome: Outcome, folder: Path) -> None:
    """Write both files into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "chaos.json").write_text(json.dumps(as_data(outcome), indent=1) + "\n")
    (folder / "chaos.html").write_text(_page(outcome))


def show(outcome: Outcome, console: Console) -> None:
    """Counts and clocks on the terminal."""
    counts = Table(
        "what", "count", title=f"seed {outcome.plan.seed}: {outcome.seconds} s, {outcome.peace} s of them peace"
    )
    for what, number in outcome.counts.items():
        bad = number and what in ("lost", "twice", "other findings")
        counts.add_row(what, f"[red]{number}[/red]" if bad else str(number))
    recovery = Table("after", "faults", "in flight", "p50 s", "p99 s", "max s", title="until those in flight moved")
    for clock in outcome.clocks:
        times = (f"{seconds:.1f}" for seconds in (clock.p50, clock.p99, clock.longest))
        recovery.add_row(clock.kind, str(clock.faults), str(clock.lifecycles), *times)
    console.print(counts, recovery)
    for finding in outcome.verdict.findings:
        console.print(f"[red]{finding.kind}[/red] {finding.who}: {finding.what}", soft_wrap=True)
    for file in histories(outcome):
        console.print(f"history: {file}", soft_wrap=True, markup=False)


def histories(outcome: Outcome) -> list[str]:
    """The files with whole histories of the entities that have a finding."""
    return [file for found in outcome.details.values() for file in found.get("histories", ())]


def text(outcome: Outcome) -> str:
    """The findings with rows and the names of history files, for a test that fails."""
    lines = [f"seed {outcome.plan.seed}: {len(outcome.verdict.findings)} findings"]
    lines += [f"{finding.kind} {finding.who}: {finding.what}" for finding in outcome.verdict.findings]
    return "\n".join([*lines, json.dumps(outcome.details, indent=1)])


def _page(outcome: Outcome) -> str:
    plot = _plot(outcome).to_html(full_html=False, include_plotlyjs=True)
    return (
        "<!doctype html><meta charset='utf-8'><title>Chaos</title>"
        "<style>body{font:15px system-ui;margin:2em}table{border-collapse:collapse;margin:1em 0}"
        "td,th{border:1px solid #ccc;padding:.2em .6em;text-align:left}.bad{color:#c62828}pre{font-size:12px}</style>"
        + "".join(_parts(outcome, plot))
    )


def _parts(outcome: Outcome, plot: str) -> Iterator[str]:
    findings = outcome.verdict.findings
    word = "nothing lost, nothing twice, every record agrees" if not findings else f"{len(findings)} findings"
    yield f"<h1>Chaos, seed {outcome.plan.seed}: <span class='{'bad' if findings else ''}'>{word}</span></h1>"
    yield f"<p>{outcome.seconds} s, the last {outcome.peace} of them without faults.</p>"
    yield plot
    yield _table(("what", "count"), outcome.counts.items())
    yield "<h2>Recovery: seconds from a fault until lifecycles in flight moved</h2>"
    rows = [
        (c.kind, c.faults, c.lifecycles, f"{c.p50:.1f}", f"{c.p99:.1f}", f"{c.longest:.1f}") for c in outcome.clocks
    ]
    yield _table(("after", "faults", "in flight", "p50", "p99", "max"), rows)
    yield "<h2>Findings</h2>" + _table(("kind", "who", "what"), ((f.kind, f.who, f.what) for f in findings))
    if files := histories(outcome):
        yield "<p>Whole histories, one file for each run; <code>WorkflowHistory.from_json</code> reads them:</p>"
        yield "<ul>" + "".join(f"<li><code>{escape(file)}</code></li>" for file in files) + "</ul>"
    for who, found in outcome.details.items():
        yield f"<details><summary>{escape(who)}</summary><pre>{escape(json.dumps(found, indent=1))}</pre></details>"
    yield "<h2>The plan of faults</h2><pre>" + escape("\n".join(map(str, outcome.plan.faults))) + "</pre>"


def _table(head: tuple[str, ...], rows: Any) -> str:
    lines = ["".join(f"<th>{escape(each)}</th>" for each in head)]
    lines += ["".join(f"<td>{escape(str(each))}</td>" for each in row) for row in rows]
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _plot(outcome: Outcome) -> go.Figure:
    second = {"overlaying": "y", "side": "right", "title": "in doubt, parked", "rangemode": "tozero", "showgrid": False}
    figure = go.Figure()
    figure.update_layout(height=560, xaxis_title="seconds", yaxis_title="lifecycles", yaxis2=second)
    times = [sample.at for sample in outcome.samples]
    for name, axis in (("open", "y"), ("done", "y"), ("in_doubt", "y2"), ("parked", "y2")):
        values = [getattr(sample, name) for sample in outcome.samples]
        figure.add_scatter(x=times, y=values, name=name.replace("_", " "), yaxis=axis, mode="lines")
    colours = dict(zip(SHAPES, _COLOURS * 2, strict=False))
    for each in outcome.happened:
        begun, over = each.begun - outcome.began, each.over - outcome.began
        figure.add_vrect(
            x0=begun, x1=max(over, begun + 0.2), fillcolor=colours[each.fault.kind], opacity=0.25, line_width=0
        )
    for kind, colour in colours.items():  # the legend of the bands
        figure.add_scatter(x=[None], y=[None], name=kind, mode="markers", marker={"color": colour, "symbol": "square"})
    return figure
