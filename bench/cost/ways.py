"""The ways that are measured: what each one's processes are started as."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PEERS = ROOT / "build" / "peers-venv" / "bin" / "python"


@dataclass(frozen=True, slots=True)
class Way:
    """One way.

    Attributes:
        title: as reports name it.
        starter: where the driver finds how to start runs, as `module:name`.
        worker: the module of the worker, and its arguments; None: it lives in the app's process.
        temporal: whether a Temporal server runs it.
        perdure: whether its database is bound to a Temporal server.
    """

    title: str
    starter: str
    worker: Sequence[str] | None = None
    temporal: bool = True
    perdure: bool = False

    @property
    def python(self) -> Path:
        """The interpreter that has its packages."""
        return Path(sys.executable) if self.temporal else PEERS


WAYS = {
    "sample": Way("Temporal's sample", "bench.cost.starters:sample", ["bench.cost.sample"]),
    "activity": Way(
        "Perdure, activity",
        "bench.cost.starters:activity",
        ["perdure.cli", "worker", "bench.cost.bodies:by_activity"],
        perdure=True,
    ),
    "inline": Way(
        "Perdure, inline",
        "bench.cost.starters:inline",
        ["perdure.cli", "worker", "bench.cost.bodies:inline"],
        perdure=True,
    ),
    "floor": Way("empty workflow", "bench.cost.starters:floor"),
    "dbos": Way("DBOS, in process", "bench.cost.with_dbos:in_process", temporal=False),
    "dbos_queue": Way("DBOS, queue", "bench.cost.with_dbos:by_queue", ["bench.cost.with_dbos"], temporal=False),
}


def present() -> list[str]:
    """The ways that this machine can run: DBOS needs the environment of `make bench-peers`."""
    return [name for name, way in WAYS.items() if way.temporal or _dbos()]


def dbos_version() -> str | None:
    """Its version; None without it."""
    return _dbos() or None


def _dbos() -> str:
    if not PEERS.exists():
        return ""
    code = "import asyncpg, importlib.metadata as m; print(m.version('dbos'))"
    found = subprocess.run([PEERS, "-c", code], check=False, capture_output=True, text=True)
    return found.stdout.strip()
