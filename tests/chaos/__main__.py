"""`python -m tests.chaos`: one run with a report in `build/`; exit status 1 when anything is lost, twice or wrong."""

from __future__ import annotations

import argparse
import asyncio
import logging
import secrets
import shutil
import sys
from pathlib import Path

from rich.console import Console
from temporalio.runtime import Runtime

from infra.quiet import quiet_runtime
from tests.chaos import report
from tests.chaos.plan import make_plan
from tests.chaos.run import run

BUILD = Path(__file__).parents[2] / "build"


def main() -> int:
    """Run what the command line says; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="of the plan: the same seed, the same plan; a random one by default")
    parser.add_argument("--minutes", type=float, default=4.0, help="how long things break (4)")
    parser.add_argument("--lifecycles", type=int, default=2000, help="how many are started (2000)")
    parser.add_argument("--every", type=float, default=3.0, help="seconds between two faults, on average (3)")
    parser.add_argument("--generated", type=float, default=1 / 3, help="the share of random lifecycles (0.33)")
    parser.add_argument("--report", type=Path, default=BUILD, help="where chaos.html and chaos.json go (build)")
    parser.add_argument("--plan", action="store_true", help="only print the plan of faults")
    options = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    plan = make_plan(seed, options.minutes * 60, options.lifecycles, every=options.every, generated=options.generated)
    console = Console(highlight=False)
    if options.plan:
        for fault in plan.faults:
            print(fault)
        return 0
    console.print(f"seed {seed}: {len(plan.starts)} lifecycles and {len(plan.faults)} faults in {plan.seconds:.0f} s")
    # Of servers that are away this process hears often enough: only errors.
    Runtime.set_default(quiet_runtime())
    folder = options.report / "chaos"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    logging.basicConfig(filename=folder / "chaos.log")
    outcome = asyncio.run(run(plan, folder))
    report.write(outcome, options.report)
    report.show(outcome, console)
    console.print(f"report: {options.report / 'chaos.html'}")
    return 1 if outcome.verdict.findings else 0


if __name__ == "__main__":
    sys.exit(main())
