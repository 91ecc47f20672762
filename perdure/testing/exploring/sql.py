"""Explores on PostgreSQL for as long as you like: `python -m perdure.testing.exploring.sql URL --minutes 10`.

URL names an empty database, which is used up. Goes on after a finding, and prints each kind once, as small as it could
be made. Ends with 1 if there was one.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

from perdure.testing.exploring.sql_explorer import SqlExplorer, script


def main() -> int:
    """Run the command; its exit status."""
    options = argparse.ArgumentParser(prog="explore.sql", description="play random scenarios on PostgreSQL")
    options.add_argument("url", help="postgresql:// of an empty database")
    options.add_argument("--seed", type=int, help="of the first scenario; random without it")
    options.add_argument("--minutes", type=float, default=1.0, help="how long to go on (1)")
    given = options.parse_args()
    seed = random.SystemRandom().randrange(10**9) if given.seed is None else given.seed
    print(f"seed {seed}, {given.minutes:g} min", flush=True)
    found, covered, runs = set[str](), Counter[tuple[str, str]](), 0
    began = time.monotonic()
    with SqlExplorer(given.url) as explorer:
        while time.monotonic() < began + given.minutes * 60:
            one = explorer.scenario(seed + runs)
            findings = explorer.play(one, covered)
            if findings and (kind := findings[0].kind) not in found:
                found.add(kind)
                smallest = explorer.smallest(one, kind)
                print(f"\n{explorer.play(smallest)[0]}\nfirst by seed {seed + runs}\n{script(smallest)}", flush=True)
            runs += 1
    print(f"{runs} runs, {runs / (time.monotonic() - began):.1f} per second, {len(covered)} pairs of place and event")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
