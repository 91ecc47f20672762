"""The steps: packages, the first start with and without Temporal's programs, a later start, and a minute of idling."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench.up.database import Postgres, until_written
from bench.up.idle import Idle, family, measured
from bench.up.place import Place, copied
from perdure.servers.guard import GuardedProcess

ROOT = Path(__file__).parents[2]
SHOP, STATE = "/opt/shop", "/var/lib/perdure"
_SETTLED = 15.0
"""Seconds after the start before idling is measured."""
_READY = "perdure.up: ready"
_NOWHERE = "http://127.0.0.1:9"


@dataclass
class Measured:
    """Figures of one tool.

    Attributes:
        seconds: by step.
        build: CPU seconds of building Temporal's programs.
        idle: None = not measured.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    build: float | None = None
    idle: Idle | None = None


class Steps:
    """Runs the steps in a place."""

    def __init__(self, place: Place, postgres: Postgres, seconds: float) -> None:
        self._place, self._postgres, self._idle = place, postgres, seconds

    def system(self) -> float:
        """Debian's Python and PostgreSQL: seconds."""
        environment = {"DEBIAN_FRONTEND": "noninteractive"}

        def install() -> None:
            self._place.run("apt-get", "-q", "update")
            packages = ("python3-venv", "postgresql")
            self._place.run("apt-get", "-qy", "install", "--no-install-recommends", *packages, **environment)

        return _timed(install)

    def perdure(self, wheel: Path, *, build: bool) -> Measured:
        """From the wheel to an idle installation with one worker."""
        found = Measured()
        copied([wheel], self._place.root / "wheels")
        found.seconds["packages"] = self._installed(f"/wheels/{wheel.name}")
        self._place.run(f"{SHOP}/bin/pip", "install", "-q", "psycopg[binary]")  # of the application
        copied([ROOT / "bench" / "peers"], self._place.root / "srv/bench")
        if build:
            with self._up() as (process, seconds):
                found.seconds["first start, Temporal built"] = seconds
                times = psutil.Process(process.pid).cpu_times()
                found.build = times.children_user + times.children_system
            self._postgres.renew()
        else:
            cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "perdure"
            copied(sorted(cache.glob("temporal-[0-9]*")), self._place.root / "root/.cache/perdure")
        with self._up() as (_, seconds):
            found.seconds["first start, programs there"] = seconds
        with self._up() as (process, seconds):
            found.seconds["later start"] = seconds
            found.idle = self._idling(lambda: self._groups(process.pid))
        return found

    def peer(self, name: str, package: str, prepare: tuple[str, ...], work: tuple[str, ...], begun: str) -> Measured:
        """From the package to an idle worker of another tool.

        Args:
            prepare: the command that makes its schema, of its environment.
            work: the command of its worker.
            begun: what the worker writes when it works; '' = the first connection counts.
        """
        found, bin_ = Measured(), f"/opt/{name}/bin"
        copied([ROOT / "bench" / "peers"], self._place.root / "srv/bench")
        self._postgres.renew()
        found.seconds["packages"] = self._installed(package, "psycopg[binary]", where=f"/opt/{name}")
        url = self._postgres.url("shop", "shop")
        more = {
            "PYTHONPATH": "/srv",
            "PYTHONUNBUFFERED": "1",
            "SHOP_DATABASE_URL": url,
            "DBOS_SYSTEM_DATABASE_URL": url,
        }
        began = time.monotonic()
        self._place.run(f"{bin_}/{prepare[0]}", *(each.format(url=url) for each in prepare[1:]), **more)
        with self._started(f"{bin_}/{work[0]}", *work[1:], **more) as (process, log):
            until_written(log, begun, 120)
            found.seconds["first start, programs there"] = time.monotonic() - began
            found.idle = self._idling(lambda: {"worker": family(process.pid)})
        return found

    def _installed(self, *packages: str, where: str = SHOP) -> float:
        def install() -> None:
            self._place.run("python3", "-m", "venv", where)
            self._place.run(f"{where}/bin/pip", "install", "-q", "--no-cache-dir", *packages)

        return _timed(install)

    @contextmanager
    def _up(self) -> Iterator[tuple[GuardedProcess, float]]:
        more = {
            "PERDURE_DATABASE_URL": self._postgres.url("shop", "shop"),
            "PERDURE_ADMIN_DATABASE_URL": self._postgres.url("postgres", "postgres"),
            "PERDURE_TEMPORAL_RELEASES": _NOWHERE,  # as where no archive can be reached
            "SHOP_SIDE": "look-up",
            "PYTHONPATH": "/srv",
            "GOFLAGS": "-buildvcs=false",
            "GOPROXY": _proxy(),
            "path": "/usr/local/go/bin",
        }
        began = time.monotonic()
        command = (f"{SHOP}/bin/perdure", "up", "bench.peers.with_perdure", "--state", STATE)
        with self._started(*command, **more) as (process, log):
            until_written(log, _READY, 3600)
            yield process, time.monotonic() - began

    @contextmanager
    def _started(self, *command: str, **more: str) -> Iterator[tuple[GuardedProcess, Path]]:
        log = self._place.root.parent / "output.log"
        log.write_text("")
        line, environment = self._place.command(*command, **more)
        process = GuardedProcess(line, ask=signal.SIGTERM, log=log, env=dict(environment))
        try:
            yield process, log
        finally:
            process.stop(timeout=60)

    def _groups(self, pid: int) -> dict[str, list[psutil.Process]]:
        status = json.loads((self._place.root / STATE[1:] / "status.json").read_text())
        named = {each["name"]: family(each["pid"]) for each in status["processes"]}
        others = {each.pid for processes in named.values() for each in processes}
        found = {"Temporal": named["temporal"], "worker": named["worker-1"]}
        return {**found, "perdure up": [each for each in family(pid) if each.pid not in others]}

    def _idling(self, groups: Callable[[], dict[str, list[psutil.Process]]]) -> Idle:
        time.sleep(_SETTLED)
        return measured(
            lambda: {**groups(), "PostgreSQL": self._postgres.processes()}, self._idle, self._postgres.connections
        )


def wheel(folder: Path) -> Path:
    """Build the wheel of this checkout."""
    command = (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder), ".")
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    [found] = folder.glob("*.whl")
    return found


def _proxy() -> str:
    return subprocess.run(("go", "env", "GOPROXY"), capture_output=True, text=True, check=True).stdout.strip()


def _timed(act: Callable[[], None]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began
