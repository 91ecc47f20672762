"""The console beside 10^5 open entities (or more), of which 10^4 wait for a person: how long the server takes for its
pages, and how large they are.

Run it as `python -m bench.console [--entities 100000] [--inbox 10000] [--asked 40]`. The entities are made by SQL. Each
page is requested `--asked` times, with `--pause` between. Ends with 1 if a page takes more than 200 ms at
the 95th percentile, or has more than 150 kB.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import asyncpg
import httpx
import typer
from rich.console import Console
from rich.table import Table
from starlette.requests import Request

from perdure import Settings
from perdure._store import schema
from perdure.console import Person, console
from perdure.console.serving import address, listen, serve
from perdure.servers.postgres import PostgresServer

SLOWEST, LARGEST = 0.2, 150_000
PAGES = {
    "overview": "/",
    "inbox": "/inbox",
    "doubts of a group": "/inbox/doubts?lifecycle=order&effect=charge&why=no+answer+1",
    "list": "/list",
    "list, a state by age": "/list?lifecycle=order&state=charging",
    "list, in doubt": "/list?in_doubt=on",
    "list, held": "/list?condition=held",
    "list, held in a state": "/list?condition=held&lifecycle=order&state=charging",
    "list, not picked up": "/list?condition=not-picked-up",
    "entity": "/entity/order?id=7",
    "search": "/search?q=0",
    "rejected": "/rejected",
    "findings": "/findings",
    "audit": "/audit",
    "audit of one person": "/audit?by=bob",
    "doubts of an effect": "/inbox/doubts?lifecycle=order&effect=charge",
    "limits and tenants": "/limits",
}
_ROWS = """
    insert into perdure.ident (lifecycle, id, version, tenant)
        select 'order', n::text, 3, 't' || n % 50 from generate_series(1, ENTITIES) n;
    insert into perdure.entity (lifecycle, id, generation, state, attention, tenant, input, since)
        select 'order', n::text, 0, ('{starting,charging,sending,waiting}'::text[])[1 + n % 4],
            case when n <= INBOX then 'charge is in doubt: no answer ' || n % 5 end, 't' || n % 50, '{"amount": 7}',
            clock_timestamp() - n * interval '1 s' from generate_series(1, ENTITIES) n;
    insert into perdure.transition (lifecycle, id, generation, version, state, made_by, why)
        select 'order', n::text, 0, v, 'charging', case when n % 1000 = 0 and v = 3 then 'ann' end, 'seen'
        from generate_series(1, ENTITIES) n, generate_series(1, 3) v;
    insert into perdure.effect
        (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline, why)
        select 'order/' || n || '/charge', 'order', n::text, 0, 'charge', 't',
            case when n <= INBOX then 'in_doubt' else 'done' end, 'd', now(),
            now() - n * interval '1 s', now() - n * interval '1 s', case when n <= INBOX then 'no answer ' || n % 5 end
        from generate_series(1, ENTITIES) n;
    insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason)
        select n, 'order', n::text, 0, 'message', '{}', 'it does not fit' from generate_series(1, INBOX / 10) n;
    insert into perdure.finding (kind, lifecycle, id, what, advice, run)
        select 'behind', 'order', n::text, 'the row shows another state', 'look at it', 1
        from generate_series(1, INBOX / 10) n;
    analyze
"""


@asynccontextmanager
async def served(entities: int, inbox: int) -> AsyncIterator[str]:
    """The address of a console beside so many entities. Temporal is away."""
    with PostgresServer() as postgres, tempfile.TemporaryDirectory() as folder:
        config = Settings(database_url=postgres.dsn("postgres"))
        db = await asyncpg.connect(config.database_url)
        await schema.migrate(db)
        await db.execute(_ROWS.replace("ENTITIES", str(entities)).replace("INBOX", str(inbox)), timeout=7200)
        await db.close()
        stop, listening = asyncio.Event(), listen("127.0.0.1", 0)
        made = console(_ann, config=config, folder=Path(folder))
        running = asyncio.create_task(serve(made, listening, stop.wait()))
        try:
            yield address(listening)
        finally:
            stop.set()
            await running


def _ann(request: Request) -> Person:
    return Person("ann", Person.granted("administer", "payloads"))


async def measured(entities: int, inbox: int, asked: int, pause: float) -> dict[str, tuple[list[float], int]]:
    """Of each page the seconds of each answer, and the bytes of the largest one."""
    found: dict[str, tuple[list[float], int]] = {}
    async with served(entities, inbox) as url, httpx.AsyncClient(base_url=url, timeout=120) as browser:
        for name, path in PAGES.items():
            (await browser.get(path)).raise_for_status()
            took, size = [], 0
            for _ in range(asked):
                await asyncio.sleep(pause)
                began = time.perf_counter()
                answer = await browser.get(path)
                took.append(time.perf_counter() - began)
                answer.raise_for_status()
                size = max(size, len(answer.content))
            found[name] = took, size
    return found


def main(
    entities: Annotated[int, typer.Option(help="Open entities.", min=100)] = 100_000,
    inbox: Annotated[int, typer.Option(help="How many of them wait for a person.", min=10)] = 10_000,
    asked: Annotated[int, typer.Option(help="How often each page is asked for.", min=2)] = 40,
    pause: Annotated[float, typer.Option(help="Seconds between two of these.", min=0)] = 0.3,
) -> None:
    """Measure, and print a table."""
    table = Table("page", "median ms", "p95 ms", "longest ms", "kB")
    good = True
    for name, (took, size) in asyncio.run(measured(entities, inbox, asked, pause)).items():
        p95 = statistics.quantiles(took, n=20, method="inclusive")[-1]
        good = good and p95 <= SLOWEST and size <= LARGEST
        numbers = (statistics.median(took), p95, max(took))
        table.add_row(name, *(f"{each * 1000:.0f}" for each in numbers), f"{size / 1000:.0f}")
    Console(width=100).print(table)
    raise typer.Exit(not good)


if __name__ == "__main__":
    typer.run(main)
