"""Across months of random acts, everything that was on record is in the archive or in the database."""

from __future__ import annotations

import json
from pathlib import Path

import asyncpg
import pytest

from tests.ages.drawing import drawn
from tests.ages.playing import Play
from tests.ages.steps import Step

SEEDS = range(6)
"""More of them: `python -m tests.ages`."""
CORPUS = Path(__file__).parents[2] / "ages" / "corpus.jsonl"
"""Short histories in which something could be lost: found at random, or written for a case that chance seldom meets."""


def corpus() -> list[list[Step]]:
    return [json.loads(line) for line in CORPUS.read_text().splitlines()]


async def played(dsn: str, steps: list[Step]) -> Play:
    db = await asyncpg.connect(dsn, server_settings={"timezone": "UTC", "lock_timeout": "250ms"})
    try:
        return await Play.of(steps, dsn, db)
    finally:
        await db.close()


@pytest.mark.parametrize("seed", SEEDS)
async def test_nothing_is_lost_in_a_random_history(dsn: str, seed: int) -> None:
    await played(dsn, drawn(seed))


@pytest.mark.parametrize("number", range(len(corpus())))
async def test_nothing_is_lost_in_the_histories_that_are_kept(dsn: str, number: int) -> None:
    play = await played(dsn, corpus()[number])
    assert play.done
