"""`python -m bench.up`: seconds from an empty Debian to a running installation, and what it takes; `make bench-up`."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.keeping import keep
from bench.marked import replaced
from bench.up.database import Postgres, running
from bench.up.place import Place, enter
from bench.up.report import markdown, rows, sentences
from bench.up.steps import ROOT, Measured, Steps, wheel

PAGE = ROOT / "docs" / "one-machine.md"
RESULT = ROOT / "build" / "up.json"
_DBOS = ("python", "-m", "bench.peers.with_dbos")
_APP = "--app=bench.peers.with_procrastinate.app"

console = Console()


def main(
    build: Annotated[bool, typer.Option(help="Also build Temporal's programs with Go, with nothing cached.")] = True,
    peers: Annotated[bool, typer.Option(help="Also measure DBOS and Procrastinate.")] = True,
    idle: Annotated[float, typer.Option(help="Seconds of idling that are measured.", min=1)] = 60.0,
    write: Annotated[bool, typer.Option(help="Write the table into docs/one-machine.md.")] = False,
) -> None:
    """Make an empty Debian in a folder, install the wheel of this checkout there, and measure. It needs root."""
    try:
        enter("debootstrap", "unshare", "chroot", "mount")
    except RuntimeError as error:
        sys.exit(str(error))
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="perdure-bench-", ignore_cleanup_errors=True) as folder:
        place = Place(Path(folder) / "debian")
        _say("an empty Debian")
        place.make()
        try:
            found, system = _measured(place, Path(folder), build, peers, idle)
        finally:
            place.leave()
    keep(RESULT, {"system": system, **{name: asdict(each) for name, each in found.items()}})
    load = max(load, os.getloadavg()[0])
    text = sentences(found, system, load, datetime.datetime.now(datetime.UTC).date(), idle)
    heading, *lines = rows(found)
    table = Table(*heading)
    for line in lines:
        table.add_row(*line)
    console.print(table)
    console.print(text)
    if write:
        PAGE.write_text(replaced(PAGE.read_text(), "up", markdown(found, text)))


def _measured(place: Place, folder: Path, build: bool, peers: bool, idle: float) -> tuple[dict[str, Measured], float]:
    go = subprocess.run(("go", "env", "GOROOT"), capture_output=True, text=True, check=True).stdout.strip()
    place.lend(Path(go), "usr/local/go")
    postgres = Postgres(place)
    steps = Steps(place, postgres, idle)
    _say("Debian's Python and PostgreSQL")
    system, found = steps.system(), {}
    with running(postgres):
        _say("Perdure")
        found["Perdure"] = steps.perdure(wheel(folder), build=build)
        if peers:
            _say("DBOS")
            migrate = ("dbos", "migrate", "--sys-db-url", "{url}")
            found["DBOS"] = steps.peer("dbos", _pinned("dbos"), migrate, _DBOS, "DBOS launched")
            _say("Procrastinate")
            apply, work = ("procrastinate", _APP, "schema", "--apply"), ("procrastinate", _APP, "worker")
            package = _pinned("procrastinate")
            found["Procrastinate"] = steps.peer("procrastinate", package, apply, work, "Starting worker")
    return found, system


def _pinned(name: str) -> str:
    """The version that the other benchmarks compare with."""
    lock = (ROOT / "infra" / "locks" / "peers.lock").read_text().splitlines()
    return next(line.split()[0] for line in lock if line.startswith(f"{name}=="))


def _say(what: str) -> None:
    console.print(what, style="dim")


if __name__ == "__main__":
    typer.run(main)
