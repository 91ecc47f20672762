"""`python -m tests.following --runs 100 --steps 400 --seed 1`: play random runs, print what was broken, and figures."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter

from tests.following.followers import Follower
from tests.following.model import Broken
from tests.following.run import Run


def main() -> None:
    """Play runs one after another; the exit status is 1 if any was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.following")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--any-refusal", action="store_true", help="a needless refusal is no mistake")
    chosen = parser.parse_args()
    Follower.any_refusal = chosen.any_refusal
    total: Counter[str] = Counter()
    broken = 0
    for seed in range(chosen.seed, chosen.seed + chosen.runs):
        run, began = Run(seed, chosen.steps), time.monotonic()
        try:
            asyncio.run(run.play())
        except Broken as error:
            broken += 1
            print(error, flush=True)
        total += run.happened
        print(f"seed {seed}: {time.monotonic() - began:.0f} s, {dict(run.happened)}", flush=True)
    print(f"{chosen.runs} runs, {broken} broken; {dict(total)}")
    raise SystemExit(broken > 0)


if __name__ == "__main__":
    main()
