"""Group commit against one commit per write: writes per second at 16 and 200 writers, with ratios.

Run it as `python -m bench.group_commit [--rounds 7]`. The server syncs to disk as in production. Each round runs
every way once, in turn, so that whatever else the machine does hits all alike; the medians are compared.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

import asyncpg

from perdure._store import schema
from perdure._store.group_commit import GroupCommit
from perdure._store.postgres import Database, PostgresStore
from perdure._wire.writes import Fence, FenceOp, Move, Write
from perdure.servers.postgres import PostgresServer

WRITERS = (16, 200)
SECONDS = 0.7
"""How long one way runs in one round."""

Commit = Callable[[Write], Awaitable[object]]


async def main(rounds: int) -> None:
    """Measure, and print the table."""
    with PostgresServer() as server:
        connection = await asyncpg.connect(server.dsn())
        await schema.migrate(connection)
        few, many = Database(server.dsn()), Database(server.dsn(), most=20)
        ways = _ways(PostgresStore(await few.open()), PostgresStore(await many.open()))
        found: dict[tuple[int, str], list[float]] = {}
        for number in range(rounds):
            for writers in WRITERS:
                for name, commit in ways.items():
                    speed = await _speed(commit, writers, f"{number}-{writers}-{name}")
                    found.setdefault((writers, name), []).append(speed)
        for database in (few, many):
            await database.close()
        await connection.close()
    _print(found, next(iter(ways)))


def _ways(few: PostgresStore, many: PostgresStore) -> dict[str, Commit]:
    def alone(store: PostgresStore) -> Commit:
        return lambda write: store._commit([write.model_dump_json(exclude_none=True)])

    def grouped(lanes: int) -> Commit:
        group = GroupCommit(few._commit, lanes=lanes)
        return lambda write: group.write(write, patience=30)

    return {
        "one commit per write, 5 connections": alone(few),
        "one commit per write, 20 connections": alone(many),
        "group commit, one batch under way": grouped(1),
        "group commit, two batches under way": grouped(2),
    }


async def _speed(commit: Commit, writers: int, prefix: str) -> float:
    """Writes per second: each writer begins an attempt, then moves, as often as there is time for."""
    end, count = time.monotonic() + SECONDS, 0

    async def write_on(entity_id: str) -> None:
        nonlocal count
        version = 0
        while time.monotonic() < end:
            version += 1
            await commit(_a_write(entity_id, version))
            count += 1

    begun = time.monotonic()
    await asyncio.gather(*(write_on(f"{prefix}-{number}") for number in range(writers)))
    return count / (time.monotonic() - begun)


def _a_write(entity_id: str, version: int) -> Write:
    fence = None
    if version % 2:
        fence = Fence(
            op=FenceOp.BEGIN,
            key=f"bench/{entity_id}/mail~{version}",
            effect="mail",
            token=str(version),
            digest="0" * 64,
            in_flight=20,
        )
    state = Move(state="sending" if version % 2 else "sent")
    return Write(
        lifecycle="bench", id=entity_id, generation=0, version=version, workflow_id=entity_id, move=state, fence=fence
    )


def _print(found: dict[tuple[int, str], list[float]], base: str) -> None:
    print(f"{'writers':>7}  {'way':38} {'writes/s':>9} {'(least - most)':>16} {'ratio':>6}")
    for (writers, name), speeds in found.items():
        speed, alone = statistics.median(speeds), statistics.median(found[writers, base])
        span = f"({min(speeds):.0f} - {max(speeds):.0f})"
        print(f"{writers:7}  {name:38} {speed:9.0f} {span:>16} {speed / alone:6.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    asyncio.run(main(parser.parse_args().rounds))
