"""Explores random lifecycles for as long as you like: `python -m perdure.testing.exploring --minutes 10`.

Goes on after a finding, and prints each kind once, as small as it could be made. Ends with 1 if there was one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import time
from typing import TypeAlias

from perdure.testing.exploring.explore import Exploration
from perdure.testing.exploring.explorer import catalogue, of_random_lifecycles
from perdure.testing.exploring.scripts import script_of

Found: TypeAlias = dict[str, tuple[int, str]]
"""By kind: the first seed that showed it, and the script."""


def main() -> int:
    """Run the command; its exit status."""
    options = argparse.ArgumentParser(prog="explore", description="play random scenarios of random lifecycles")
    options.add_argument("--seed", type=int, help="of the first scenario; random without it")
    options.add_argument("--minutes", type=float, default=1.0, help="how long to go on (1)")
    options.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many at once (all cores)")
    given = options.parse_args()
    seed = random.SystemRandom().randrange(10**9) if given.seed is None else given.seed
    print(f"seed {seed}, {given.minutes:g} min, {given.processes} processes", flush=True)
    shares = [(seed + share, given.processes, given.minutes * 60) for share in range(given.processes)]
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        results = pool.starmap(_share, shares)
    whole, found = Exploration(), dict[str, tuple[int, str]]()
    for part, kinds in results:
        whole.runs += part.runs
        whole.cpu_seconds += part.cpu_seconds
        whole.covered += part.covered
        found |= kinds
    possible = catalogue()
    missing = sorted(possible - set(whole.covered))
    print(f"{whole}; {len(possible) - len(missing)} of {len(possible)} in the catalogue")
    for place, event in missing:
        print(f"  never seen: {place}: {event}")
    for kind, (number, script) in sorted(found.items()):
        print(f"\n{kind}, first by seed {number}\n{script}")
    return 1 if found else 0


def _share(first: int, step: int, seconds: float) -> tuple[Exploration, Found]:
    done, until = Exploration(), time.monotonic() + seconds
    found: Found = {}
    began = time.process_time()
    explorer, number = of_random_lifecycles(), first
    while time.monotonic() < until:
        one = explorer.scenario(number)
        findings = explorer.play(one, done.covered)
        done.runs += 1
        if findings and findings[0].kind not in found:
            smallest = explorer.smallest(one, findings[0].kind)
            found[findings[0].kind] = number, f"{findings[0].what[:2000]}\n{script_of(smallest)}"
        number += step
    done.cpu_seconds = time.process_time() - began
    return done, found
