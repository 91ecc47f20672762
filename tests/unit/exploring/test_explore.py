"""Explorations: the same seed plays the same bytes, what fails becomes small, and a broken promise is found."""

from __future__ import annotations

import subprocess
import sys

from perdure.testing.exploring.explorer import of_random_lifecycles

SEEDS = range(40)


def trace(seed: int) -> str:
    explorer = of_random_lifecycles()
    return explorer.world(explorer.scenario(seed)).trace.hexdigest()


def test_the_same_seed_plays_the_same_bytes_in_every_process() -> None:
    here = [trace(seed) for seed in SEEDS]
    assert len(set(here)) == len(here)
    program = f"from {__name__} import *; print(*(trace(seed) for seed in SEEDS))"
    for hash_seed in ("1", "2"):
        played = subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert played.stdout.split() == here
