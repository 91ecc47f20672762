"""Explores families on a PostgreSQL of its own: `python -m tests.applications.web_jobs.families --minutes 10`.

Goes on after a finding, and prints each kind once, as small as it could be made, with what the corpus keeps of it. Ends
with 1 if there was one.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

from perdure.servers.postgres import PostgresServer
from tests.applications.web_jobs.families.explorer import FamilyExplorer
from tests.applications.web_jobs.families.scenario import SCENARIO, family_scenario, lines_of


def main() -> int:
    """Run the command; its exit status."""
    options = argparse.ArgumentParser(
        prog="tests.applications.web_jobs.families", description="play random families of web jobs"
    )
    options.add_argument("--seed", type=int, help="of the first scenario; random without it")
    options.add_argument("--minutes", type=float, default=1.0, help="how long to go on (1)")
    options.add_argument("--runs", type=int, default=10**9, help="how many scenarios at most")
    options.add_argument("--shrink", type=int, default=150, help="how many smaller ones of a finding are tried (150)")
    given = options.parse_args()
    seed = random.SystemRandom().randrange(10**9) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    with PostgresServer(durable=False) as postgres, FamilyExplorer(postgres.dsn()) as explorer:
        return _explore(explorer, seed, given)


def _explore(explorer: FamilyExplorer, seed: int, given: argparse.Namespace) -> int:
    found, covered, runs = set[str](), Counter[tuple[str, str]](), 0
    began = time.monotonic()
    while runs < given.runs and time.monotonic() < began + given.minutes * 60:
        one = family_scenario(seed + runs)
        findings = explorer.play(one, covered)
        runs += 1
        print(".", end="\n" if runs % 50 == 0 else "", flush=True)
        if findings and (kind := findings[0].kind) not in found:
            found.add(kind)
            print(f"\n{findings[0]}\nrun {runs}, seed {seed + runs - 1}", flush=True)
            smallest = explorer.smallest(one, kind, most=given.shrink)
            print(f"{explorer.play(smallest)[0]}\n{lines_of(smallest)}", flush=True)
            print(SCENARIO.dump_json(smallest, exclude_defaults=True).decode(), flush=True)
    pairs = Counter(place for place, _ in covered)
    print(f"{runs} runs, {runs / (time.monotonic() - began):.1f} per second, {len(covered)} pairs of place and event")
    print(dict(pairs))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
