"""All that one run of the benchmark found, as `bench.json` holds it."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any

import psutil

from bench.cost.figures import Verdict, figures, gates, listed, ratios, spread, targets
from bench.cost.measure import PINNED, Plan, Round
from bench.cost.ways import dbos_version


@dataclass(frozen=True, slots=True)
class Result:
    """All that was found.

    Attributes:
        rounds: of each Temporal server, of each way.
        slow_commits: our transactions a second while a commit takes 5 ms, of each of our ways.
        plan: how much was measured.
        day: when.
    """

    rounds: Mapping[str, Mapping[str, Sequence[Round]]]
    slow_commits: Mapping[str, float]
    plan: Plan
    day: datetime.date = field(default_factory=lambda: datetime.datetime.now(datetime.UTC).date())

    @property
    def count(self) -> int:
        """How many rounds there were."""
        return min(len(found) for ways in self.rounds.values() for found in ways.values())

    @property
    def gates(self) -> list[Verdict]:
        """What must hold, counted on the first server: counts are the same on all of them."""
        of_ways = next(iter(self.rounds.values()))
        return gates({way: figures(found) for way, found in of_ways.items()}, self.slow_commits)

    def targets(self) -> dict[str, list[Verdict]]:
        """What is wanted, on each server, and on each with pinned processes."""
        found = {}
        for server, of_ways in self.rounds.items():
            found[server] = targets(of_ways)
            if f"runs_per_s{PINNED}" in of_ways["inline"][0].figures:
                found[f"{server}{PINNED}"] = targets(of_ways, PINNED)
        return found

    def machine(self) -> dict[str, object]:
        """Where it was measured, and how much else that machine did."""
        cores = [figures(found)["other_cores"] for ways in self.rounds.values() for found in ways.values()]
        return {
            "cores": os.cpu_count(),
            "memory_gib": round(psutil.virtual_memory().total / 2**30),
            "system": platform.platform(terse=True),
            "load_at_end": [round(each, 1) for each in os.getloadavg()],
            "cores_taken_by_others": {"median": sorted(cores)[len(cores) // 2], "most": max(cores)},
        }

    def versions(self) -> dict[str, str]:
        """Of what was measured."""
        found = {"python": platform.python_version()}
        found |= {name: version(name) for name in ("perdure", "temporalio", "asyncpg", "pydantic")}
        dbos = dbos_version()
        return found | ({"dbos": dbos} if dbos else {})

    def as_json(self) -> dict[str, Any]:
        """For `bench.json`."""
        return {
            "servers": {
                server: {way: {**figures(found), "spread": spread(found)} for way, found in of_ways.items()}
                for server, of_ways in self.rounds.items()
            },
            "ratios": {
                server: {name: asdict(span) for name, span in ratios(of_ways).items()}
                for server, of_ways in self.rounds.items()
            },
            "gates": listed(self.gates),
            "targets": {where: listed(verdicts) for where, verdicts in self.targets().items()},
            "machine": self.machine(),
            "versions": self.versions(),
            "settings": {**asdict(self.plan), "rounds": self.count, "day": self.day.isoformat()},
        }
