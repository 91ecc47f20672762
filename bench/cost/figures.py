"""From rounds to figures: medians and spreads, ratios, gates that must hold, targets that are wanted."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from bench.cost.measure import PINNED, Round

CROWD = (
    "cpu_s_per_1000",
    "server_cpu_s_per_1000",
    "app_cpu_s_per_1000",
    "db_cpu_s_per_1000",
    "runs_per_s",
)
"""Of a crowd, and of a pinned one under the same names with `PINNED` behind."""
KEYS = (
    *CROWD,
    *(f"{key}{PINNED}" for key in CROWD),
    "p50_ms",
    "p99_ms",
    "history_events",
    "billable_actions",
    "db_writes_per_run",
    "transactions_per_run",
    "other_cores",
)
COMPARED = ("cpu_s_per_1000", "server_cpu_s_per_1000", "app_cpu_s_per_1000", "runs_per_s", "p50_ms")
BASES = ("sample", "dbos", "dbos_queue", "floor")


@dataclass(frozen=True, slots=True)
class Span:
    """A median over the rounds, with the least and the most."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Span:
        """Of the values of all rounds."""
        return cls(*(round(each, 3) for each in (statistics.median(values), min(values), max(values))))

    def __str__(self) -> str:
        return f"{_short(self.median)} ({_short(self.least)} - {_short(self.most)})"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One figure against what is wanted of it: at most, or at least, so much."""

    name: str
    value: float
    wanted: str
    met: bool
    least: float
    most: float

    @classmethod
    def at_most(cls, name: str, value: float | Span, most: float) -> Verdict:
        """Met while it is not above."""
        span = value if isinstance(value, Span) else Span(value, value, value)
        return cls(name, round(span.median, 3), f"<= {most:g}", span.median <= most, span.least, span.most)

    @classmethod
    def at_least(cls, name: str, value: float | Span, least: float) -> Verdict:
        """Met while it is not below."""
        span = value if isinstance(value, Span) else Span(value, value, value)
        return cls(name, round(span.median, 3), f">= {least:g}", span.median >= least, span.least, span.most)


def figures(rounds: Sequence[Round]) -> dict[str, float]:
    """The median of each figure over the rounds; p99 over the latencies of all of them together."""
    found = {key: statistics.median(values) for key, values in _values(rounds).items()}
    every = sorted(ms for each in rounds for ms in each.ms)
    found["p99_ms"] = every[min(int(len(every) * 0.99), len(every) - 1)]
    return {key: round(found[key], 3) for key in KEYS if key in found}


def spread(rounds: Sequence[Round]) -> dict[str, list[float]]:
    """Least and most of each figure over the rounds."""
    return {key: [round(min(values), 3), round(max(values), 3)] for key, values in _values(rounds).items()}


def ratios(of_ways: Mapping[str, Sequence[Round]]) -> dict[str, Span]:
    """Ours against the others on one server: over the rounds, the ratio within each."""
    found: dict[str, Span] = {}
    for way in ("activity", "inline"):
        ours = _values(of_ways[way])
        for base in (each for each in BASES if each in of_ways):
            theirs = _values(of_ways[base])
            for key in (*COMPARED, *(f"{each}{PINNED}" for each in COMPARED)):
                if key in ours and key in theirs and all(theirs[key]):
                    pairs = zip(ours[key], theirs[key], strict=True)
                    found[f"{way}_{key}_to_{base}"] = Span.of([our / their for our, their in pairs])
    return found


def gates(ways: Mapping[str, Mapping[str, float]], behind_slow_commits: Mapping[str, float]) -> list[Verdict]:
    """What must hold: counts, which no other load on the machine can change much."""
    found = [
        Verdict.at_most("history events of an effect as an activity", ways["activity"]["history_events"], 12),
        Verdict.at_most("history events of an inline effect", ways["inline"]["history_events"], 7),
    ]
    for way in ("activity", "inline"):
        writes, taken = ways[way]["db_writes_per_run"], behind_slow_commits[way]
        found.append(Verdict.at_most(f"writes per run, {way}", writes, 3))
        found.append(Verdict.at_most(f"our transactions a second at 200 in flight, commits of 5 ms, {way}", taken, 50))
    return found


def targets(of_ways: Mapping[str, Sequence[Round]], suffix: str = "") -> list[Verdict]:
    """What is wanted on one server, free or pinned."""
    inline, ratio = _values(of_ways["inline"]), ratios(of_ways)

    def to(way: str, key: str, base: str) -> Span | None:
        return ratio.get(f"{way}_{key}{suffix}_to_{base}")

    wanted = [
        (Verdict.at_most, "inline: CPU, the sample's", to("inline", "cpu_s_per_1000", "sample"), 0.40),
        (Verdict.at_most, "inline: CPU, DBOS's in process", to("inline", "cpu_s_per_1000", "dbos"), 0.75),
        (Verdict.at_most, "inline: Temporal's CPU, empty", to("inline", "server_cpu_s_per_1000", "floor"), 1.2),
        (Verdict.at_least, "inline: runs/s, the sample's", to("inline", "runs_per_s", "sample"), 3),
        (Verdict.at_least, "inline: runs/s, DBOS's in process", to("inline", "runs_per_s", "dbos"), 1.5),
        (Verdict.at_least, "inline: runs/s, empty", to("inline", "runs_per_s", "floor"), 0.6),
        (Verdict.at_least, "activity: runs/s, the sample's", to("activity", "runs_per_s", "sample"), 2),
    ]
    found = [judge(name, span, limit) for judge, name, span, limit in wanted if span is not None]
    app = Span.of(inline[f"app_cpu_s_per_1000{suffix}"])
    found.insert(2, Verdict.at_most("inline: CPU s of worker and app per 1,000", app, 8))
    if not suffix:
        found.append(Verdict.at_most("inline: ms at 5 starts/s, p50", Span.of(inline["p50_ms"]), 30))
        p99 = Span(figures(of_ways["inline"])["p99_ms"], min(inline["p99_ms"]), max(inline["p99_ms"]))
        found.append(Verdict.at_most("inline: ms at 5 starts/s, p99", p99, 80))
    return found


def listed(verdicts: Sequence[Verdict]) -> dict[str, dict[str, object]]:
    """By name, as they stand in the JSON."""
    return {each.name: {key: value for key, value in asdict(each).items() if key != "name"} for each in verdicts}


def _values(rounds: Sequence[Round]) -> dict[str, list[float]]:
    values = {key: [each.figures[key] for each in rounds] for key in rounds[0].figures}
    values["p50_ms"] = [statistics.median(each.ms) for each in rounds]
    values["p99_ms"] = [max(each.ms) for each in rounds]
    return values


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
