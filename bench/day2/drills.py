"""The drills. Each is given a rig with orders under way, and returns when it began."""

from __future__ import annotations

import asyncio
import time
import zipfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from bench.day2.certificates import Certificates
from bench.day2.operator import Operator
from bench.failover.rig import DATABASE
from bench.polling import eventually
from perdure.servers.postgres_binaries import postgres_binaries
from perdure.servers.postgres_user import server_account

ROOT = Path(__file__).parents[2]
BROKEN = "bench.day2.broken"
KEEPER = "perdure-database"
FULL = 15.0
"""Seconds for which a disk is full."""
SMALL = "300m"
"""The size of that disk."""


@dataclass(frozen=True, slots=True)
class Drill:
    """One thing that is done.

    Attributes:
        name: as the command names it.
        what: what is done, for the table.
        arrange: starts the workers.
        happen: does it, and returns when it began.
        small_disk: whether PostgreSQL has a disk that is soon full.
    """

    name: str
    what: str
    arrange: Callable[[Operator], Awaitable[None]]
    happen: Callable[[Operator], Awaitable[float]]
    small_disk: bool = False


async def three_workers(operator: Operator) -> None:
    """Start three, side by side."""
    await asyncio.gather(*(operator.rig.worker() for _ in range(3)))


async def roll(operator: Operator) -> float:
    """Replace each worker by SIGTERM and a new one, one after the other."""
    began, rig = time.time(), operator.rig
    for each in list(rig.workers):
        await rig.worker()
        await asyncio.to_thread(each.stop, timeout=60)
    operator.saw.append(f"three workers replaced in {time.time() - began:.0f} s; each exited with 0")
    assert {each.exit_status for each in rig.workers[:3]} == {0}
    return began


async def old_workers(operator: Operator) -> None:
    """Start two workers of the release before, on its own schema."""
    folder = operator.rig.folder / "before"
    [wheel] = (ROOT / "tests" / "releases").glob("*/*.whl")
    await asyncio.to_thread(_unpack, wheel, folder)
    path = f"{folder}:{ROOT}"
    await asyncio.gather(*(operator.rig.worker(cwd=str(folder), PYTHONPATH=path) for _ in range(2)))


async def upgrade(operator: Operator) -> float:
    """Migrate, and replace the workers by those of this release."""
    began, rig = time.time(), operator.rig
    await operator.perdure("migrate")
    for each in list(rig.workers):
        await rig.worker()
        await asyncio.to_thread(each.stop, timeout=60)
    operator.saw.append(f"`perdure migrate`, then each worker, in {time.time() - began:.0f} s")
    return began


def _unpack(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        content.extractall(folder)


async def good_build(operator: Operator) -> None:
    """Start two workers of build 1, which is current."""
    await asyncio.gather(*(operator.rig.worker(PERDURE_DEPLOYMENT="orders:1") for _ in range(2)))
    await _deployed(operator, "set-current-version", "--build-id", "1")


async def ramp_and_roll_back(operator: Operator) -> float:
    """Give build 2, whose code fails, a third of the new orders; take it back when that is seen."""
    await operator.rig.worker(app=BROKEN, PERDURE_DEPLOYMENT="orders:2")
    began = time.time()
    await _deployed(operator, "set-ramping-version", "--build-id", "2", "--percentage", "33")
    seen = await operator.until_shows(_fails, "list", "--attention")
    await _deployed(operator, "set-ramping-version", "--build-id", "2", "--delete")
    query = "TemporalWorkerDeploymentVersion = 'orders:2' and ExecutionStatus = 'Running'"
    await operator.temporal(
        *("workflow", "update-options", "--query", query, "--reason", "back to build 1", "--yes"),
        *("--versioning-override-behavior", "auto_upgrade"),
    )
    moved = await operator.until_shows(lambda shown: not _fails(shown), "list", "--attention")
    operator.saw.append(
        f"`perdure list --attention`: *its code fails* {seen:.0f} s after the ramp, and none {moved:.0f} s after the "
        "rollback"
    )
    return began


async def _deployed(operator: Operator, *arguments: str) -> None:
    command = ("worker", "deployment", *arguments, "--deployment-name", "orders", "--yes")
    while True:  # its worker may not have asked for work yet
        try:
            await operator.temporal(*command)
        except RuntimeError as error:
            if "not found" not in str(error).lower():
                raise
            await asyncio.sleep(0.5)
        else:
            return


async def poisoned_workers(operator: Operator) -> None:
    """Start two workers whose code fails for each twentieth order."""
    await asyncio.gather(*(operator.rig.worker(app=BROKEN, BROKEN_EVERY="20") for _ in range(2)))


async def mend_poison(operator: Operator) -> float:
    """See it, and deploy the code that does not fail."""
    began, rig = time.time(), operator.rig
    seen = await operator.until_shows(_fails, "list", "--attention")
    for each in list(rig.workers):
        await rig.worker()
        await asyncio.to_thread(each.stop, timeout=60)
    deployed = time.time()
    await operator.until_shows(lambda shown: not _fails(shown), "list", "--attention")
    operator.saw.append(
        f"`perdure list --attention`: *its code fails* after {seen:.0f} s at most; none {time.time() - deployed:.0f} s "
        "after the mended code was there. No other order waited"
    )
    return began


def _fails(shown: str) -> bool:
    return "its code fails" in shown


async def two_workers(operator: Operator) -> None:
    """Start two."""
    await asyncio.gather(operator.rig.worker(), operator.rig.worker())


async def terminate_keeper(operator: Operator) -> float:
    """Terminate it, as a batch of the Web UI would."""
    began = time.time()
    await operator.temporal("workflow", "terminate", "--workflow-id", KEEPER, "--reason", "a batch")
    again = "the keeper was ended from outside"
    logs = [operator.rig.folder / f"worker-{number}.log" for number in range(len(operator.rig.workers))]
    await eventually(lambda: any(again in each.read_text(errors="replace") for each in logs), "it runs again")
    operator.saw.append(f"in the log after {time.time() - began:.0f} s: *{again}: it starts again from its last state*")
    return began


async def restore(operator: Operator) -> float:
    """Dump; take orders; lose both databases; restore, claim, recover."""
    rig = operator.rig
    dump = rig.folder / "shop.dump"
    binaries = postgres_binaries(server_account())
    await operator.run(str(binaries / "pg_dump"), "--format=custom", f"--file={dump}", rig.primary.dsn(DATABASE))
    await asyncio.sleep(3)  # orders that the dump does not have
    began = time.time()
    for each in rig.workers:
        await asyncio.to_thread(each.kill)
    await asyncio.to_thread(rig.temporal.forget)
    admin = (str(binaries / "psql"), "-qX", rig.primary.dsn())
    await operator.run(*admin, "-c", f"alter database {DATABASE} allow_connections false")
    await operator.run(*admin, "-c", f"drop database {DATABASE} with (force)")
    await operator.run(*admin, "-c", f"create database {DATABASE} allow_connections true")
    await asyncio.to_thread(rig.temporal.start)
    restored = (str(binaries / "pg_restore"), "--no-owner", f"--dbname={rig.primary.dsn(DATABASE)}", str(dump))
    await operator.run(*restored)
    await operator.perdure("database", "claim", "--as", "restored", "--yes")
    output = await operator.perdure("recover", "--yes", "--note", "the disk broke")
    took = time.time() - began
    await two_workers(operator)
    operator.saw.append(f"restored, claimed and recovered in {took:.0f} s: *{output.splitlines()[0]}*")
    return began


async def fill_disk(operator: Operator) -> float:
    """Fill PostgreSQL's disk, and free it when PostgreSQL has no room."""
    cluster = operator.rig.primary
    big, began = cluster.data_directory / "big", time.time()
    await asyncio.to_thread(_fill, big)
    psql = (str(postgres_binaries(server_account()) / "psql"), "-qX", cluster.dsn(DATABASE), "-c")
    wanting = "select pg_switch_wal(); create table room as select repeat('x', 8000) from generate_series(1, 9000)"
    output = await operator.run(*psql, wanting, may_fail=True)
    await asyncio.sleep(FULL)
    running = cluster.running
    status = await operator.perdure("status", may_fail=True)
    big.unlink()
    if not cluster.running:
        await asyncio.to_thread(cluster.start)
    state = "stayed up" if running else "ended, and was started when there was room"
    operator.saw.append(
        f"PostgreSQL {state}; its error: *{_last(output)}*; `perdure status` meanwhile: *{_last(status)}*"
    )
    return began


def _last(output: str) -> str:
    lines = [line for line in output.strip().splitlines() if not line.startswith("HINT")]
    return lines[-1].partition(" (")[0][:110] if lines else ""


def _fill(big: Path) -> None:
    with big.open("wb") as file:
        try:
            while True:
                file.write(b"x" * (1 << 16))
                file.flush()
        except OSError:
            pass


def drills() -> list[Drill]:
    """All, in the order of the table."""
    certificates = Certificates()
    return [
        Drill("rolling-restart", "three workers are replaced, one after the other", three_workers, roll),
        Drill("upgrade", "the release before is replaced by this one", old_workers, upgrade),
        Drill(
            "bad-release",
            "a release whose code fails gets a third of the new orders, and is rolled back",
            good_build,
            ramp_and_roll_back,
        ),
        Drill(
            "poison",
            "the code fails for each twentieth order; mended code is deployed",
            poisoned_workers,
            mend_poison,
        ),
        Drill("restore", "both databases are lost; a dump that is 3 s old is restored", two_workers, restore),
        Drill("disk-full", "PostgreSQL's disk is full for 15 s", two_workers, fill_disk, small_disk=True),
        Drill(
            "certificates",
            "authorities, certificates and keys of PostgreSQL and Temporal are replaced, one after the other",
            certificates.secured_processes,
            certificates.replace,
        ),
        Drill("keeper", "the keeper is terminated by hand", two_workers, terminate_keeper),
    ]
