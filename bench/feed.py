"""The feed: what its columns and indexes cost each write, how late events come, and what an old transaction costs.

Run it as `python -m bench.feed [--rounds 9]`. The server syncs to disk as in production. Ways are measured in turn, so
that whatever else the machine does hits all alike.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

import asyncpg
import psutil

from perdure._store import schema
from perdure.servers.postgres import PostgresServer

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

BATCHES = (1, 50)
SECONDS = 0.5
"""How long one way writes in one round."""
WRITERS, STARTS = 50, 20
BACKLOG = 200_000

WITHOUT = """
    drop index perdure.transition_by_xid, perdure.transition_by_seq;
    alter table perdure.transition drop column xid, drop column seq
"""


async def main(rounds: int) -> None:
    """Measure, and print the tables."""
    with PostgresServer() as server:
        await _writes(server, rounds)
        async with _database(server, "followed") as db:
            dsn = server.dsn("followed")
            await _lag(dsn, "nothing else open")
            old = await asyncpg.connect(dsn)
            await old.execute("begin; select pg_current_xact_id()")
            await _lag(dsn, "a transaction open all the time")
            await _looks(db)
            await old.close()


@dataclass(slots=True)
class Cost:
    """What the moves of one way have cost altogether: the backend's CPU, which no neighbour changes, and the log."""

    moves: int = 0
    cpu: float = 0.0
    wal: int = 0


async def _writes(server: PostgresServer, rounds: int) -> None:
    """Cost of moves with the feed, and in a database that has none."""
    found: dict[tuple[int, str], Cost] = {}
    async with _database(server, "with_feed") as with_feed, _database(server, "without_feed") as without:
        await without.execute(WITHOUT)
        for number in range(rounds):
            for size in BATCHES:
                for name, db in (("with", with_feed), ("without", without)):
                    await _move(db, size, f"{number}-{size}", found.setdefault((size, name), Cost()))
    for size in BATCHES:
        one, other = found[size, "with"], found[size, "without"]
        cpu, bare = one.cpu / one.moves * 1e6, other.cpu / other.moves * 1e6
        wal, bare_wal = one.wal / one.moves, other.wal / other.moves
        print(
            f"a move in batches of {size:2}: "
            f"{cpu:5.0f} us of CPU with the feed, {bare:5.0f} without, ratio {cpu / bare:.2f}; "
            f"{wal:5.0f} bytes of WAL, {bare_wal:5.0f} without, ratio {wal / bare_wal:.2f}"
        )


async def _move(db: Connection, size: int, prefix: str, cost: Cost) -> None:
    times = psutil.Process(await db.fetchval("select pg_backend_pid()")).cpu_times
    wal = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"
    begun, version, before, wal_before = time.monotonic(), 0, times(), await db.fetchval(wal)
    while time.monotonic() < begun + SECONDS:
        version += 1
        moves = [
            {"lifecycle": "bench", "id": f"{prefix}-{number}", "round": 0, "version": version, "workflow_id": "w"}
            | {"move": {"state": "sending"}}
            for number in range(size)
        ]
        await db.fetch("select perdure.apply_writes($1::jsonb)", json.dumps(moves))
    after = times()
    cost.moves += version * size
    cost.cpu += after.user + after.system - before.user - before.system
    cost.wal += int(await db.fetchval(wal) - wal_before)


async def _lag(dsn: str, title: str) -> None:
    """Seconds from a commit until a follower has it that looks without a pause, under writers that take their time."""
    committed: dict[str, float] = {}
    seen: dict[str, float] = {}
    longest = 0

    async def write(number: int) -> None:
        db = await asyncpg.connect(dsn)
        for each in range(STARTS):
            entity_id = f"{title}-{number}-{each}"
            async with db.transaction():
                await db.execute("select perdure.start('bench', $1, '{}')", entity_id)
                await asyncio.sleep(random.random() ** 3 * 0.08)
            committed[entity_id] = time.monotonic()
        await db.close()

    async def follow() -> None:
        nonlocal longest
        db = await asyncpg.connect(dsn)
        after = await db.fetchval("select perdure.feed_position()")
        while len(seen) < WRITERS * STARTS:
            for row in await db.fetch("select id, position from perdure.feed($1, 500)", after):
                seen[row["id"]], after = time.monotonic(), row["position"]
                longest = max(longest, len(after))
        await db.close()

    await asyncio.gather(follow(), *(write(number) for number in range(WRITERS)))
    lags = sorted(max(seen[each] - committed[each], 0) * 1000 for each in committed)
    p50, p99 = lags[len(lags) // 2], lags[len(lags) * 99 // 100]
    print(f"lag with {WRITERS} writers, {title}: p50 {p50:.1f} ms, p99 {p99:.1f} ms; longest position {longest}")


async def _looks(db: Connection) -> None:
    """A look while an old transaction is open, and a long absence."""
    absent = await db.fetchval("select perdure.feed_position()")
    for part in range(100):
        few = "select perdure.start('bench', $1 || '-' || n, '{}') from generate_series(1, $2) n"
        await db.execute(few, f"backlog-{part}", BACKLOG // 100)
    end = await db.fetchval("select perdure.feed_position()")
    page = await db.fetch("select position from perdure.feed($1, 100)", absent)
    for what, after in (
        (f"an empty look after {BACKLOG} events of an open transaction's time", end),
        (f"the first 100 of {BACKLOG}", absent),
        ("the next 100", page[-1]["position"]),
    ):
        took = []
        for _ in range(9):
            begun = time.monotonic()
            await db.fetch("select * from perdure.feed($1, 100)", after)
            took.append((time.monotonic() - begun) * 1000)
        print(f"{what}: {statistics.median(took):.2f} ms")


@asynccontextmanager
async def _database(server: PostgresServer, name: str) -> AsyncIterator[Connection]:
    admin = await asyncpg.connect(server.dsn())
    await admin.execute(f"create database {name}")
    await admin.close()
    db = await asyncpg.connect(server.dsn(name))
    await schema.migrate(db)
    yield db
    await db.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    asyncio.run(main(parser.parse_args().rounds))
