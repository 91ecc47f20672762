"""Web jobs, watched: a job with 500 children, whose pages are in three languages, while a worker and a page are killed.

The table at the end is counted at the pages: each puts on record what it did, by Idempotency-Key.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeAlias

import asyncpg
from rich.table import Table

from infra.demos.batch import Batch
from infra.demos.comments import console, say
from infra.demos.job_pages import FILES, PageProcess, missing
from infra.demos.served_console import ServedConsole, until_a_person_is_asked
from infra.stack import ROOT, Stack
from perdure import Settings

CHILDREN, FEWEST = 500, 30
APP = "workers.web_jobs.app:app"
MASTER = "month"
TYPE = """
    insert into web_job.type (name, url, children, timeout, doubt, remembers, signed_with)
    values ($1, $2, $3, '4 s', 'dedupe', '1 hour', 'env:PAGE_SECRET')
"""
POSTING = """
    insert into web_job.type (name, url, timeout, doubt, signed_with)
    values ('posting', $1, '4 s', 'escalate', 'env:PAGE_SECRET')
"""
UNANSWERED = 90_001
"""The invoice of the job whose call is left in doubt."""
SECRET = "whsec_" + base64.b64encode(os.urandom(32)).decode()
PATIENCE = 300.0
"""Seconds after which it gives up."""

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@dataclass(frozen=True, slots=True)
class Count:
    """What was counted at the end; written to `build/demo-jobs.json`."""

    children: int
    done: int
    failed: int
    lost: int
    twice: int
    dropped: int
    master: str
    languages: int
    workers_killed: int = 1
    pages_killed: int = 1
    seconds: float = 0.0

    def wrong(self, refused: int) -> bool:
        """Whether something is not as it was promised; `refused` children are to fail."""
        as_promised = self.done == self.children - refused and self.failed == refused and self.master == "complete"
        return bool(self.lost or self.twice or not as_promised)


async def demo(children: int, keep: bool) -> int:
    """Run it; the exit status."""
    folder = ROOT / "build" / "demo-jobs"
    shutil.rmtree(folder, ignore_errors=True)
    pages = [PageProcess(each, folder / "pages", SECRET) for each in FILES if missing(each) is None]
    for why in filter(None, map(missing, FILES)):
        say(f"[yellow]{why}[/yellow]")
    batch = Batch(children, [page.language for page in pages])
    stack = Stack(folder, app=APP, tables=ROOT / "activities" / "web_jobs" / "tables.sql", mail=False)
    async with stack.up(), running(pages), batch.serving():
        say(f"PostgreSQL and Temporal are up. Web UI: [link]{stack.temporal.ui_url}[/link]")
        say(f"pages in {', '.join(page.language for page in pages)} are up; each drops repeats of an Idempotency-Key")
        connection = await asyncpg.connect(stack.dsn)
        try:
            count = await play(stack, connection, pages, batch)
        except TimeoutError:
            say(f"[red]not over after {PATIENCE:.0f} s[/red]: the logs are in {folder}")
            return 1
        finally:
            await connection.close()
        (ROOT / "build" / "demo-jobs.json").write_text(json.dumps(asdict(count), indent=2) + "\n")
        show(count, len(batch.refused))
        if keep:
            await leave_in_doubt(stack, pages[0])
            await stay(stack, folder, settings_of(pages, batch))
    return 1 if count.wrong(len(batch.refused)) else 0


@asynccontextmanager
async def running(pages: Sequence[PageProcess]) -> AsyncIterator[None]:
    """The pages run for as long as the context lasts."""
    try:
        for page in pages:
            await page.start()
        yield
    finally:
        for page in pages:
            await page.end()


async def play(stack: Stack, connection: Connection, pages: Sequence[PageProcess], batch: Batch) -> Count:
    """Insert the master, kill a worker and a page while its children are under way, and count."""
    began = time.monotonic()
    await connection.executemany(TYPE, [(page.language, page.origin, []) for page in pages])
    await connection.execute(TYPE, "month", f"{batch.origin}/month", [page.language for page in pages])
    settings = settings_of(pages, batch)
    first, _ = await asyncio.gather(
        stack.start_worker("worker-1", **settings), stack.start_worker("worker-2", **settings)
    )
    say("two workers run")
    await connection.execute("insert into web_job.job (id, type) values ($1, 'month')", MASTER)
    say(f"one row is inserted: a job whose page lists {len(batch.numbers)} children")
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        group.create_task(watch(connection))
        await worked(pages, len(batch.numbers) // 5)
        first.kill()
        say(f"[red]SIGKILL[/red] of worker-1 (pid {first.pid}) while its calls are under way")
        group.create_task(kill_and_restart(pages[0], len(batch.numbers) // len(pages) // 2))
        await stack.start_worker("worker-3", **settings)
        say("worker-3 runs")
    count = await counted(connection, pages, batch)
    return replace(count, seconds=round(time.monotonic() - began, 1))


def settings_of(pages: Sequence[PageProcess], batch: Batch) -> dict[str, str]:
    """The workers' environment, beside the stack's own."""
    return {
        "PERDURE_WEB_ORIGINS": ",".join([batch.origin, *(page.origin for page in pages)]),
        "PERDURE_WEB_NETWORKS": "127.0.0.0/8",
        "PERDURE_LOG": "text",
        "PAGE_SECRET": SECRET,
    }


async def kill_and_restart(page: PageProcess, when: int) -> None:
    """Kill a page at its work number `when`, before it answers; start it again a second later."""
    await worked([page], when)
    page.kill()
    say(f"[red]SIGKILL[/red] of the page in {page.language} (pid {page.pid}): what it did last it has not answered")
    await asyncio.sleep(1)
    await page.start()
    say(f"the page in {page.language} runs again")


async def worked(pages: Sequence[PageProcess], wanted: int) -> None:
    """Wait until the pages have done so much work."""
    while sum(page.worked().total() for page in pages) < wanted:
        await asyncio.sleep(0.02)


async def watch(connection: Connection) -> None:
    """Wait for the end of the master, and print now and then how far its children are."""
    shown, ended = "", False
    while not ended:
        ended = not await connection.fetchval(
            "select exists (select from perdure.entity) or exists (select from perdure.behind)"
        )
        row = await connection.fetchrow("select * from web_job.family where master = $1", MASTER)
        if row is not None:
            line = f"{row['done']} done, {row['failed']} failed, {row['open']} under way, {row['waiting']} wait"
            line += ", more are listed on further pages" if row["next_page"] else ""
            if line != shown:
                say(f"[dim]{line}[/dim]")
            shown = line
        await asyncio.sleep(1)


async def counted(connection: Connection, pages: Sequence[PageProcess], batch: Batch) -> Count:
    """Count at the pages and in the app's table."""
    states = Counter(
        row["state"] for row in await connection.fetch("select state from web_job.job where parent = $1", MASTER)
    )
    work: Counter[int] = Counter()
    for page in pages:
        for body, number in page.worked().items():
            work[json.loads(body)["invoice"]] += number
    wanted = set(batch.numbers) - set(batch.refused)
    return Count(
        children=len(batch.numbers),
        done=states["complete"],
        failed=states["failed"],
        lost=len(wanted - set(work)),
        twice=sum(number - 1 for number in work.values()) + len(set(work) - wanted),
        dropped=sum(page.dropped() for page in pages),
        master=await connection.fetchval("select state from web_job.job where id = $1", MASTER),
        languages=len(pages),
    )


def show(count: Count, refused: int) -> None:
    """The table at the end."""
    table = Table(title="counted at the pages and in the app's table")
    table.add_column("what")
    table.add_column("count", justify="right")
    table.add_column("", style="dim")
    rows: list[tuple[str, int, str]] = [
        ("children", count.children, "listed by the page of one job"),
        ("done", count.done, "rows that show `complete`"),
        ("failed", count.failed, f"rows that show `failed`: their page refused {refused} by 422"),
        ("lost", count.lost, "no page has done them"),
        ("twice", count.twice, "done more than once"),
        (
            "repeats dropped",
            count.dropped,
            "came again with the same key, for nobody knew what a kill had left",
        ),
        ("workers killed", count.workers_killed, "by SIGKILL"),
        ("pages killed", count.pages_killed, "by SIGKILL, between the work and the answer"),
    ]
    for what, number, note in rows:
        bad = number and what in ("lost", "twice")
        table.add_row(what, f"[red]{number}[/red]" if bad else str(number), note)
    console.print(table)
    say(f"the job itself: {count.master}; {count.seconds} s; the counts are in build/demo-jobs.json")


async def leave_in_doubt(stack: Stack, page: PageProcess) -> None:
    """Leave a call in doubt to a person: its page answers too late, and does not drop repeats of it by contract."""
    connection = await asyncpg.connect(stack.dsn)
    try:
        await connection.execute(POSTING, page.origin)
        payload = json.dumps({"invoice": UNANSWERED, "seconds": 6})
        await connection.execute("insert into web_job.job (id, type, payload) values ('late', 'posting', $1)", payload)
    finally:
        await connection.close()
    say(
        "one more job: its page takes longer than the four seconds that its call may take. Was it done? Nobody can tell"
    )
    await until_a_person_is_asked(stack.dsn)


async def stay(stack: Stack, folder: Path, settings: dict[str, str]) -> None:
    """Leave everything up until Ctrl-C, with the console."""
    from workers.web_jobs.app import app  # its bodies read their settings when they are imported

    os.environ.update({**stack.environment(), **settings})
    served = ServedConsole(Settings(web_ui=stack.temporal.ui_url), app, stack.folder / "console")
    say(served.invitation)
    say(f"  has its page done it? grep {UNANSWERED} {folder}/pages/*/worked.txt")
    say(f"  Web UI: {stack.temporal.ui_url}\n  logs: {folder}")
    environment = {**stack.environment(), **settings, "PERDURE_APP": APP}
    for name in ("PERDURE_DATABASE_URL", "TEMPORAL_ADDRESS", "PERDURE_APP", *settings):
        say(f"  export {name}={environment[name]}")
    await served.run()


def main() -> None:
    """Entry point of `make demo-jobs`."""
    parser = argparse.ArgumentParser(prog="python -m infra.demos.jobs", description=__doc__)
    parser.add_argument("--children", type=int, default=CHILDREN, help=f"of the one job; {CHILDREN} by default")
    parser.add_argument("--keep", action="store_true", help="leave everything up until Ctrl-C")
    given = parser.parse_args()
    if given.children < FEWEST:
        parser.error(f"--children {given.children}: at least {FEWEST}, or all is over before something is killed")
    try:
        sys.exit(asyncio.run(demo(given.children, given.keep)))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
