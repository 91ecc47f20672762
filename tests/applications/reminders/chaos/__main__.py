"""`python -m tests.applications.reminders.chaos`: one run; exit status 1 if a dose is lost, sent twice or wrong."""

from __future__ import annotations

import argparse
import asyncio
import logging
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

import asyncpg
from rich.console import Console
from temporalio.runtime import Runtime

from infra.quiet import quiet_runtime
from perdure._store import schema
from perdure.servers.memory import memory
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.applications.reminders.chaos import report
from tests.applications.reminders.chaos.run import Outcome, Wish, run

BUILD = Path(__file__).parents[4] / "build"


def main() -> int:
    """Run what the command line says; the exit status."""
    options = _options().parse_args()
    console = Console(highlight=False)
    wish = Wish(
        seed=secrets.randbelow(1_000_000) if options.seed is None else options.seed,
        patients=options.patients,
        bad=options.bad,
        lead=options.lead,
        every=options.every,
        faults=options.faults,
        report_faults=options.report_faults,
        window=options.window * 60,
        callbacks=not options.no_callbacks,
    )
    console.print(f"seed {wish.seed}: {wish.patients} patients; a worker is killed every {wish.every:g} s")
    Runtime.set_default(quiet_runtime())
    folder = options.report / "chaos-reminders"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    logging.basicConfig(filename=folder / "chaos.log")
    outcome = asyncio.run(_run(wish, folder))
    report.show(outcome, console)
    report.write(outcome, options.report / "chaos-reminders.json")
    console.print(f"report: {options.report / 'chaos-reminders.json'}, logs: {folder}")
    return 1 if outcome.verdict.findings else 0


def _options() -> argparse.ArgumentParser:
    wish = Wish(0)
    parser = argparse.ArgumentParser(prog="python -m tests.applications.reminders.chaos", description=__doc__)
    add = parser.add_argument
    add("--seed", type=int, help="of patients and of the provider's faults; a random one by default")
    add("--patients", type=int, default=wish.patients, help=f"bad records included ({wish.patients})")
    add("--bad", type=float, default=wish.bad, help=f"share of bad records; at least one of each kind ({wish.bad})")
    add(
        "--lead",
        type=float,
        default=wish.lead,
        help=f"seconds from sign-up to the first dose, at least ({wish.lead:g})",
    )
    add("--every", type=float, default=wish.every, help=f"seconds between two kills ({wish.every:g})")
    add("--faults", type=float, default=wish.faults, help=f"share of requests that go wrong ({wish.faults})")
    add("--report-faults", type=float, default=wish.report_faults, help=f"share of callbacks ({wish.report_faults})")
    add("--window", type=float, default=wish.window / 60, help="minutes for which most doses are of use (20)")
    add("--no-callbacks", action="store_true", help="the provider reports nothing: doubts are settled by look-ups")
    add("--report", type=Path, default=BUILD, help="where chaos-reminders.json and the logs go (build)")
    return parser


async def _run(wish: Wish, folder: Path) -> Outcome:
    with (
        PostgresServer(durable=False) as postgres,
        tempfile.TemporaryDirectory(prefix="perdure-temporal-", dir=memory()) as temporal_client,
        TemporalServer(db_file=Path(temporal_client) / "temporal.db", log_file=folder / "temporal.log") as temporal,
    ):
        connection = await asyncpg.connect(postgres.dsn("postgres"))
        await schema.migrate(connection)
        await connection.close()
        return await run(wish, postgres, temporal, "postgres", folder)


if __name__ == "__main__":
    sys.exit(main())
