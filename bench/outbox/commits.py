"""What the app's own commits pay: for `perdure.start` in them, and for a NOTIFY that would wake the relay."""

from __future__ import annotations

import statistics

import asyncpg

from bench.outbox.load import INPUT, ROW, Measured, run, server


def _start(entity_id: str) -> str:
    return f"select perdure.start('comment-notification', {entity_id}::text, {INPUT})"


WAYS = {
    "one statement": (
        f"{ROW};",
        f"with c as ({ROW}) {_start('c.id')} from c;",
    ),
    "a transaction": (
        f"begin;\n{ROW};\ncommit;",
        f"begin;\n{ROW} \\gset\n{_start(':id')};\ncommit;",
    ),
}
"""The row alone, and the row with its start."""

NOTIFY = """
    create table last_word (at timestamptz not null);
    insert into last_word values (now());
    -- One NOTIFY in 50 ms; who finds the row locked leaves it to whoever holds it.
    create function coalesced_notify() returns void language plpgsql as $$ begin
        update last_word set at = clock_timestamp() where ctid = (
            select ctid from last_word where at < clock_timestamp() - interval '50 ms' for update skip locked);
        if found then perform pg_notify('outbox', ''); end if;
    end $$;
"""
_STARTED = f"with c as ({ROW}), s as ({_start('c.id')} from c)"
NOTIFYING = {
    "none": f"{_STARTED} select * from s;",
    "one in 50 ms": f"{_STARTED} select coalesced_notify() from s;",
    "one a row": f"with c as ({ROW}), s as ({_start('c.id')}, c.id from c) "
    "select pg_notify('outbox', s.id::text) from s;",
}


Pairs = list[tuple[Measured, Measured]]


async def starts(rounds: int, seconds: float, *, durable: bool) -> dict[tuple[str, int], Pairs]:
    """The row alone and with its start, by way and number of clients; a pair for each round, side by side."""
    found: dict[tuple[str, int], Pairs] = {}
    async with server(durable=durable) as made:
        for _ in range(rounds):
            for way, (bare, started) in WAYS.items():
                for clients in (1, 8):
                    pair = [await run(made, each, clients=clients, seconds=seconds) for each in (bare, started)]
                    found.setdefault((way, clients), []).append((pair[0], pair[1]))
    return found


async def notifications(rounds: int, seconds: float, *, clients: int, rate: int | None) -> dict[str, list[Measured]]:
    """Commits with a NOTIFY in them, with one in 50 ms, and without, while somebody listens. On a durable server."""
    found: dict[str, list[Measured]] = {way: [] for way in NOTIFYING}
    async with server(durable=True) as made:
        listener = await asyncpg.connect(made.dsn())
        await listener.execute(NOTIFY)
        await listener.add_listener("outbox", lambda *_: None)
        for _ in range(rounds):
            for way, script in NOTIFYING.items():
                found[way].append(await run(made, script, clients=clients, seconds=seconds, rate=rate))
        await listener.close()
    return found


def middle(values: list[float]) -> str:
    """The median, with least and most."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} - {max(values):.2f})"
