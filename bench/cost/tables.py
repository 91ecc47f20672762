"""The figures as tables, for the terminal, for `bench.html`, for docs/costs.md, and for the README beside."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bench.cost.figures import CROWD, Span, figures, spread
from bench.cost.measure import PINNED
from bench.cost.result import Result
from bench.cost.rig import SERVERS
from bench.cost.ways import WAYS

WORDS = {
    "cpu_s_per_1000": "CPU s per 1,000 runs, in all",
    "server_cpu_s_per_1000": "of these Temporal",
    "app_cpu_s_per_1000": "worker and app",
    "db_cpu_s_per_1000": "PostgreSQL of the app",
    "runs_per_s": "runs/s",
    "p50_ms": "ms at 5 starts/s, p50",
    "p99_ms": "ms at 5 starts/s, p99",
    "history_events": "history events",
    "billable_actions": "billable actions of Temporal Cloud",
    "db_writes_per_run": "writes of its state",
    "transactions_per_run": "transactions that wrote",
}
COUNTED = ("history_events", "billable_actions", "db_writes_per_run")
SHOWN = ("cpu_s_per_1000", "runs_per_s", f"cpu_s_per_1000{PINNED}", f"runs_per_s{PINNED}", "p50_ms", "p99_ms")
"""Of these, the ones on the page."""
TIMED = (*CROWD, *(f"{key}{PINNED}" for key in CROWD), "p50_ms", "p99_ms", "transactions_per_run")
_MARKS = re.compile(r"(?<=<!-- bench -->\n).*?(?=<!-- /bench -->)", re.DOTALL)

Table = list[list[str]]
"""A heading, then lines."""


def counted(result: Result) -> Table:
    """What hardly depends on the machine, as counted on the first server."""
    server = next(iter(result.rounds))
    return _figures(result, server, COUNTED, [way for way in result.rounds[server] if WAYS[way].temporal])


def timed(result: Result, server: str) -> Table:
    """What was timed on one server: medians, the least and the most."""
    return _figures(result, server, TIMED, list(result.rounds[server]))


def wanted(result: Result) -> Table:
    """What is wanted: on each server, free and pinned."""
    judged = {where: {each.name: each for each in verdicts} for where, verdicts in result.targets().items()}
    names = {each.name: each.wanted for verdicts in judged.values() for each in verdicts.values()}
    lines = []
    for name, limit in names.items():
        line = [name, limit]
        for verdicts in judged.values():
            each = verdicts.get(name)
            line.append(f"{Span(each.value, each.least, each.most)}{'' if each.met else ' NO'}" if each else "-")
        lines.append(line)
    return [["", "wanted", *(_where(each) for each in judged)], *lines]


def held(result: Result) -> Table:
    """What must hold."""
    lines = [[each.name, each.wanted, f"{each.value:.3g}", "yes" if each.met else "NO"] for each in result.gates]
    return [["", "must be", "is", "holds"], *lines]


def about(result: Result) -> str:
    """Where and when it was measured, in one line."""
    machine, versions = result.machine(), result.versions()
    taken = machine["cores_taken_by_others"]
    assert isinstance(taken, dict)
    return (
        f"Measured on {result.day.isoformat()} in {result.count} rounds on {machine['cores']} cores, of which other "
        f"processes took {taken['median']:.2g} (at most {taken['most']:.2g}); "
        + ", ".join(f"{name} {number}" for name, number in versions.items())
    )


def markdown(result: Result) -> str:
    """The tables of the page: what was counted, CPU, speed and latency on the last server, and the missed targets."""
    server, of_ways = list(result.rounds.items())[-1]
    timed = _lines(_figures(result, server, SHOWN, list(of_ways)))
    heading, *lines = wanted(result)
    missed = _lines([heading, *(line for line in lines if any(cell.endswith(" NO") for cell in line))])
    parts = [about(result) + ".", _lines(counted(result)), f"**{_title(server)}**", timed, "**Missed targets**", missed]
    return "\n\n".join(parts) + "\n"


def everything(result: Result) -> list[tuple[str, Table]]:
    """All tables, each with its title."""
    return [
        ("counted", counted(result)),
        *((f"timed: {SERVERS[server]}; medians (least - most)", timed(result, server)) for server in result.rounds),
        ("wanted", wanted(result)),
        ("must hold", held(result)),
    ]


def markdown_of_all(result: Result) -> str:
    """The tables beside the benchmark: all of them."""
    parts = [f"**{title[0].upper()}{title[1:]}**\n\n{_lines(table)}" for title, table in everything(result)]
    return "\n\n".join([about(result) + ".", *parts]) + "\n"


def replaced(page: str, tables: str) -> str:
    """The page with `tables` between its marks.

    Raises:
        ValueError: the page has no marks.
    """
    if not _MARKS.search(page):
        raise ValueError("the page has no <!-- bench --> and <!-- /bench -->")
    return _MARKS.sub(lambda _: f"\n{tables}\n", page, count=1)


def _figures(result: Result, server: str, keys: Sequence[str], ways: Sequence[str]) -> Table:
    of_ways = result.rounds[server]
    medians = {way: figures(of_ways[way]) for way in ways}
    spans = {way: spread(of_ways[way]) for way in ways}
    lines = []
    for key in (each for each in keys if any(each in found for found in medians.values())):
        line = [WORDS[key.removesuffix(PINNED)] + (", pinned" if key.endswith(PINNED) else "")]
        for way in ways:
            median = medians[way].get(key)
            least, most = spans[way].get(key, (median, median))
            if median is None or least is None or most is None:
                line.append("-")
            elif least == most:
                line.append(f"{median:.3g}")
            else:
                line.append(str(Span(median, least, most)))
        lines.append(line)
    return [["", *(WAYS[way].title for way in ways)], *lines]


def _title(server: str) -> str:
    return SERVERS[server][0].upper() + SERVERS[server][1:]


def _where(name: str) -> str:
    server = name.removesuffix(PINNED)
    return f"{server} server" + (", pinned" if name.endswith(PINNED) else "")


def _lines(table: Table) -> str:
    rows = [table[0], ["---"] * len(table[0]), *table[1:]]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
