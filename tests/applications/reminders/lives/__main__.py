"""Plays random lives of patients: `python -m tests.applications.reminders.lives --seed 1 --minutes 10`.

Each is judged. With `--engine` they are played in the simulation of the core, a day and a half each.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.applications.reminders.lives.exploring import ShortLife, explored
from tests.applications.reminders.lives.judge import played
from tests.applications.reminders.lives.lives import Author


def main() -> int:
    """Play until the time is over; 1 if there was a difference."""
    parser = argparse.ArgumentParser(prog="python -m tests.applications.reminders.lives", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first life; the others follow it")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long")
    parser.add_argument("--lives", type=int, default=10**9, help="how many at most")
    parser.add_argument("--engine", action="store_true", help="play them in the simulation of the core")
    given = parser.parse_args()
    months, lives, found = 0.0, 0, Counter[str]()
    end = time.monotonic() + given.minutes * 60
    for seed in range(given.seed, given.seed + given.lives):
        if time.monotonic() > end:
            break
        life = (ShortLife if given.temporal_client else Author)(seed).life()
        months, lives = months + life.months, lives + 1
        for each in (explored(seed) if given.temporal_client else played(life))[:1]:
            found[each.kind] += 1
            print(f"seed {seed}, after {months:.0f} patient-months: {each}", flush=True)
    print(f"{lives} patients, {months:.0f} patient-months, {dict(found) or 'no difference'}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
