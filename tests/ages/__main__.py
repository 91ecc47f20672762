"""`python -m tests.ages [--seed N] [--histories N]`: plays random histories.

It ends with 1 at the first that is wrong, and prints it, made as short as it gets, as a line for `corpus.jsonl`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter

import asyncpg

from perdure._store import schema
from perdure.servers.postgres import PostgresServer
from tests.ages.drawing import drawn, shorter
from tests.ages.playing import Play
from tests.ages.steps import Step
from tests.integration.retention.months import Connection


async def wrong_with(steps: list[Step], dsn: str, db: Connection) -> str | None:
    """What a history shows to be wrong, if anything."""
    try:
        await Play.of(steps, dsn, db)
    except AssertionError as wrong:
        return str(wrong)
    return None


async def search(dsn: str, seed: int, histories: int) -> int:
    """Play so many."""
    db = await asyncpg.connect(dsn, server_settings={"timezone": "UTC", "lock_timeout": "250ms"})
    await schema.migrate(db)
    done: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for number in range(seed, seed + histories):
        steps = drawn(number)
        try:
            play = await Play.of(steps, dsn, db)
        except AssertionError as wrong:
            print(f"history {number}, the {number - seed + 1}th: {wrong}")
            steps = await shorter(steps, lambda fewer: wrong_with(fewer, dsn, db))
            print(f"{len(steps)} steps show it: {await wrong_with(steps, dsn, db)}\n{json.dumps(steps)}")
            return 1
        if (played := number - seed + 1) % 25 == 0:
            print(f"{played} histories", flush=True)
        done.update(play.done)
        refused.update(play.refused)
    print(f"{histories} histories from {seed}: nothing is lost\ndone: {dict(done)}\nrefused: {dict(refused)}")
    return 0


def main() -> None:
    """Read the options."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--histories", type=int, default=500)
    given = options.parse_args()
    with PostgresServer(durable=False) as server:
        sys.exit(asyncio.run(search(server.dsn(), given.seed, given.histories)))


if __name__ == "__main__":
    main()
