"""What a run of the benchmark leaves: tables on the terminal, `build/bench.json`, and plots in `build/bench.html`."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path

import rich.table
from plotly import graph_objects, subplots  # type: ignore[import-untyped]
from rich.console import Console

from bench.cost.figures import figures, ratios, spread
from bench.cost.measure import PINNED
from bench.cost.result import Result
from bench.cost.tables import Table, about, everything
from bench.cost.ways import WAYS

_PARTS = {
    "server_cpu_s_per_1000": "Temporal",
    "app_cpu_s_per_1000": "worker and app",
    "db_cpu_s_per_1000": "PostgreSQL",
}
_COMPARED = {
    "cpu_s_per_1000": "CPU in all",
    "server_cpu_s_per_1000": "CPU of Temporal",
    "app_cpu_s_per_1000": "CPU of worker and app",
    "runs_per_s": "runs/s",
    "p50_ms": "p50",
}
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>The cost of a comment notification</title>
<style>
body {{ font-family: sans-serif; margin: 2em auto; max-width: 76em; padding: 0 1em; }}
table {{ border-collapse: collapse; font-size: .85em; }} td, th {{ border: 1px solid #ccc; padding: .25em .5em; }}
td {{ text-align: right; }} td:first-child {{ text-align: left; }}
</style></head><body>
<h1>The cost of a comment notification</h1>
{body}
</body></html>
"""


def write(result: Result, folder: Path) -> None:
    """Write `bench.json` and `bench.html` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bench.json").write_text(json.dumps(result.as_json(), indent=2) + "\n")
    (folder / "bench.html").write_text(_page(result))


def show(result: Result) -> None:
    """Print the tables."""
    console = Console(width=max(Console().width, 160))  # narrower tables can't be read, also not in a file
    for title, cells in everything(result):
        table = rich.table.Table(*cells[0], title=title)
        for line in cells[1:]:
            table.add_row(*line)
        console.print(table)
    console.print(about(result))


def _page(result: Result) -> str:
    body = [f"<p>{html.escape(about(result))}</p>"]
    figures_ = [_cpu(result), _bars(result, "runs_per_s", "runs/s"), _latency(result), _ratios(result)]
    for number, figure in enumerate(figures_):
        body.append(figure.to_html(full_html=False, include_plotlyjs=number == 0))
    for title, table in everything(result):
        body.append(f"<h2>{html.escape(title)}</h2>{_html(table)}")
    return _PAGE.format(body="\n".join(body))


def _html(table: Table) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(each)}</{tag}>" for each in cells) + "</tr>"

    return "<table>" + row(table[0], "th") + "".join(row(each, "td") for each in table[1:]) + "</table>"


def _panels(result: Result, key: str) -> list[tuple[str, str, str]]:
    """Server, end of the names of its figures, and title: free and pinned."""
    found = []
    for server, of_ways in result.rounds.items():
        found.append((server, "", f"{server} server"))
        if f"{key}{PINNED}" in of_ways["inline"][0].figures:
            found.append((server, PINNED, f"{server} server, pinned"))
    return found


def _cpu(result: Result) -> graph_objects.Figure:
    panels = _panels(result, "cpu_s_per_1000")
    figure = subplots.make_subplots(
        rows=1, cols=len(panels), shared_yaxes=True, subplot_titles=[each for _, _, each in panels]
    )
    for number, (server, suffix, _) in enumerate(panels, 1):
        of_ways = result.rounds[server]
        medians = {way: figures(found) for way, found in of_ways.items()}
        for color, (part, name) in zip(("#4c78a8", "#f58518", "#54a24b"), _PARTS.items(), strict=True):
            bar = graph_objects.Bar(
                x=[WAYS[way].title for way in of_ways],
                y=[medians[way][f"{part}{suffix}"] for way in of_ways],
                name=name,
                marker_color=color,
                showlegend=number == 1,
            )
            figure.add_trace(bar, row=1, col=number)
    figure.update_layout(barmode="stack", title="CPU s per 1,000 runs (medians)")
    return figure


def _bars(result: Result, key: str, title: str) -> graph_objects.Figure:
    panels = _panels(result, key)
    figure = subplots.make_subplots(
        rows=1, cols=len(panels), shared_yaxes=True, subplot_titles=[each for _, _, each in panels]
    )
    for number, (server, suffix, _) in enumerate(panels, 1):
        of_ways = result.rounds[server]
        middle = [figures(found)[f"{key}{suffix}"] for found in of_ways.values()]
        spans = [spread(found)[f"{key}{suffix}"] for found in of_ways.values()]
        error = {
            "type": "data",
            "array": [most - value for (_, most), value in zip(spans, middle, strict=True)],
            "arrayminus": [value - least for (least, _), value in zip(spans, middle, strict=True)],
        }
        bar = graph_objects.Bar(x=[WAYS[way].title for way in of_ways], y=middle, error_y=error)
        figure.add_trace(bar, row=1, col=number)
    figure.update_layout(showlegend=False, title=f"{title}: medians, least and most")
    return figure


def _latency(result: Result) -> graph_objects.Figure:
    servers = list(result.rounds)
    titles = [f"{server} server" for server in servers]
    figure = subplots.make_subplots(rows=1, cols=len(servers), shared_yaxes=True, subplot_titles=titles)
    for number, server in enumerate(servers, 1):
        for way, found in result.rounds[server].items():
            box = graph_objects.Box(y=[ms for each in found for ms in each.ms], name=WAYS[way].title)
            figure.add_trace(box, row=1, col=number)
    figure.update_yaxes(type="log")
    figure.update_layout(showlegend=False, title="ms from the start to the end that the app sees, at 5 starts/s")
    return figure


def _ratios(result: Result) -> graph_objects.Figure:
    figure = graph_objects.Figure()
    for server, of_ways in result.rounds.items():
        found = {name: span for name, span in ratios(of_ways).items() if not name.endswith("_to_dbos_queue")}
        error = {
            "type": "data",
            "array": [each.most - each.median for each in found.values()],
            "arrayminus": [each.median - each.least for each in found.values()],
        }
        dots = graph_objects.Scatter(
            x=[each.median for each in found.values()],
            y=[_in_words(name) for name in found],
            error_x=error,
            mode="markers",
            name=f"{server} server",
        )
        figure.add_trace(dots)
    figure.add_vline(x=1, line_dash="dot")
    figure.update_xaxes(type="log")
    figure.update_layout(title="ratios within a round: medians, least and most", height=1100, margin={"l": 420})
    return figure


def _in_words(name: str) -> str:
    way, _, rest = name.partition("_")
    key, _, base = rest.rpartition("_to_")
    pinned = ", pinned" if key.endswith(PINNED) else ""
    return f"{way} to {WAYS[base].title}: {_COMPARED[key.removesuffix(PINNED)]}{pinned}"
