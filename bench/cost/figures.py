"""From rounds to figures: medians and spreads, ratios, gates that must hold, targets that are wanted."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from bench.cost.measure import Round

KEYS = (
    "runs_per_s",
    "server_cpu_s_per_1000",
    "app_cpu_s_per_1000",
    "db_cpu_s_per_1000",
    "history_events",
    "billable_actions",
    "db_writes_per_run",
    "transactions_per_run",
    "p50_ms",
    "p99_ms",
    "p50_ms_tuned",
    "p99_ms_tuned",
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One figure against what is wanted of it: at most, or at least, so much."""

    name: str
    value: float
    wanted: str
    met: bool

    @classmethod
    def at_most(cls, name: str, value: float, most: float) -> Verdict:
        """Met while it is not above."""
        return cls(name, round(value, 3), f"<= {most:g}", value <= most)

    @classmethod
    def at_least(cls, name: str, value: float, least: float) -> Verdict:
        """Met while it is not below."""
        return cls(name, round(value, 3), f">= {least:g}", value >= least)


def figures(rounds: Sequence[Round]) -> dict[str, float]:
    """The median of each figure over the rounds; p99 over the latencies of all of them together."""
    found = {key: statistics.median(values) for key, values in _values(rounds).items()}
    for suffix, latencies in _latencies(rounds).items():
        every = sorted(ms for each in latencies for ms in each)
        found[f"p99_ms{suffix}"] = every[min(int(len(every) * 0.99), len(every) - 1)]
    return {key: round(found[key], 3) for key in KEYS}


def spread(rounds: Sequence[Round]) -> dict[str, list[float]]:
    """Least and most of each figure over the rounds."""
    return {key: [round(min(values), 3), round(max(values), 3)] for key, values in _values(rounds).items()}


def ratios(all_rounds: Mapping[str, Sequence[Round]]) -> dict[str, float]:
    """Ours against the sample and the floor: the median over the rounds of the ratio within each."""
    found: dict[str, float] = {}
    for way in ("activity", "inline"):
        for key in ("runs_per_s", "server_cpu_s_per_1000", "app_cpu_s_per_1000", "p50_ms", "p50_ms_tuned"):
            for base in ("sample", "floor"):
                pairs = zip(_values(all_rounds[way])[key], _values(all_rounds[base])[key], strict=True)
                found[f"{way}_{key}_to_{base}"] = round(statistics.median(ours / other for ours, other in pairs), 3)
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
        found.append(Verdict.at_most(f"our transactions per run at 200 in flight, commits of 5 ms, {way}", taken, 0.5))
    return found


def targets(ratio: Mapping[str, float]) -> list[Verdict]:
    """What is wanted, measured beside each other on the same machine."""
    return [
        Verdict.at_least("activity: runs/s to the sample's", ratio["activity_runs_per_s_to_sample"], 2),
        Verdict.at_most("activity: server CPU to the sample's", ratio["activity_server_cpu_s_per_1000_to_sample"], 0.6),
        Verdict.at_least("inline: runs/s to the sample's", ratio["inline_runs_per_s_to_sample"], 4),
        Verdict.at_most("inline: server CPU to the sample's", ratio["inline_server_cpu_s_per_1000_to_sample"], 0.35),
        Verdict.at_least("inline: runs/s to the floor's", ratio["inline_runs_per_s_to_floor"], 0.75),
        Verdict.at_most("inline: p50 to the sample's", ratio["inline_p50_ms_to_sample"], 1 / 6),
    ]


def listed(verdicts: Sequence[Verdict]) -> dict[str, dict[str, object]]:
    """By name, as they stand in the JSON."""
    return {each.name: {key: value for key, value in asdict(each).items() if key != "name"} for each in verdicts}


def _values(rounds: Sequence[Round]) -> dict[str, list[float]]:
    values = {key: [each.figures[key] for each in rounds] for key in rounds[0].figures}
    for suffix, latencies in _latencies(rounds).items():
        values[f"p50_ms{suffix}"] = [statistics.median(each) for each in latencies]
        values[f"p99_ms{suffix}"] = [max(each) for each in latencies]
    return values


def _latencies(rounds: Sequence[Round]) -> dict[str, list[list[float]]]:
    return {"": [each.default_ms for each in rounds], "_tuned": [each.tuned_ms for each in rounds]}
