"""Explorations: the same seed plays the same bytes, what fails becomes small, and a broken promise is found."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from perdure.app import contracts_of
from perdure.contracts.keys import Entity
from perdure.testing.exploring.explore import generated
from perdure.testing.exploring.programs import Author
from perdure.testing.exploring.scenarios import scenario
from perdure.testing.exploring.world import World

SEEDS = range(40)


@contextmanager
def quiet() -> Iterator[None]:
    """Without the log of workers that are killed."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def trace(seed: int) -> str:
    subject = generated()
    contracts = contracts_of(subject.builds[0].lifecycle(subject.lifecycle))
    world = World(subject, scenario(seed, Author(Random(seed)).program("secret"), contracts), Counter())
    with quiet():
        world.play(Entity(subject.lifecycle, "1"))
    return world.trace.hexdigest()


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
