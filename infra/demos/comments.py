"""The main job, watched: 60 comments are committed and notified, once each, while app and worker are killed.

Everything in the table at the end is counted: in the maildir, in the app's table, in the mirror.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import timedelta

import asyncpg
from rich.console import Console
from rich.table import Table

from infra.demos.comments_app import COMMITTED, INSERTED
from infra.demos.served_console import ServedConsole, until_a_person_is_asked
from infra.mail.store import count_by_message_id, replies_held
from infra.stack import MAIL_SECRET, ROOT, Stack, WorkerProcess
from perdure import Settings

COMMENTS = 60
LEFT_IN_DOUBT = 4
"""Further comments where all stays up: their worker is killed, and no look-up can find their mails."""
SETTINGS = {
    "PERDURE_MAIL_TIMEOUT": "3",
    "PERDURE_MAIL_VISIBILITY_DELAY": "1",
    "PERDURE_MAX_CONCURRENT_EFFECTS": "6",
    "PERDURE_LOG": "text",
}
LIFECYCLE = "comment-notification"

console = Console()


@dataclass(frozen=True, slots=True)
class Count:
    """What was counted at the end; written to `build/demo.json`."""

    comments: int
    sent: int
    lost: int
    duplicated: int
    in_doubt: int
    settled_by_lookup: int
    torn: int
    apps_killed: int
    workers_killed: int
    seconds: float


async def demo(keep: bool) -> int:
    """Run it; the exit status."""
    os.environ.update(SETTINGS)  # the contracts read theirs when they are imported
    folder = ROOT / "build" / "demo"
    shutil.rmtree(folder, ignore_errors=True)
    async with Stack(folder).up() as stack:
        say(f"PostgreSQL, Temporal and a mail server are up. Web UI: [link]{stack.temporal.ui_url}[/link]")
        began = time.monotonic()
        count = await play(stack)
        count = Count(**{**asdict(count), "seconds": round(time.monotonic() - began, 1)})
        (ROOT / "build" / "demo.json").write_text(json.dumps(asdict(count), indent=2) + "\n")
        show(count)
        if keep:
            await stay(stack)
    return 1 if count.lost or count.duplicated or count.torn or count.sent != count.comments else 0


async def play(stack: Stack) -> Count:
    """Commit the comments, kill a worker while mails are in flight, start another, and count."""
    first, _ = await asyncio.gather(
        stack.start_worker("worker-1", **SETTINGS), stack.start_worker("worker-2", **SETTINGS)
    )
    say("two workers run")
    connection = await asyncpg.connect(stack.dsn)
    try:
        apps_killed = await kill_apps(stack)
        # One more than worker-2 sends at once: at least one of them is worker-1's, or was given up by worker-2, which
        # leaves it in doubt as well.
        await kill_worker(stack, first, COMMENTS, accepted=int(SETTINGS["PERDURE_MAX_CONCURRENT_EFFECTS"]) + 1)
        await stack.start_worker("worker-3", **SETTINGS)
        say("worker-3 runs; whatever worker-1 had in flight is in doubt and will be looked up")
        await all_final(connection)
        return await counted(stack, connection, apps_killed)
    finally:
        await connection.close()


async def kill_apps(stack: Stack) -> int:
    """Kill the app between an insert and its commit, and right after a commit. How often it was.

    Two thirds of the comments are committed by then.
    """
    killed = 0
    for number, where in (COMMENTS // 3, INSERTED), (2 * COMMENTS // 3, COMMITTED):
        app = await _app(stack, where, str(number))
        assert app.stdout is not None
        await app.stdout.readline()
        app.kill()
        await app.wait()
        killed += 1
        what = "before its commit" if where == INSERTED else "right after its commit"
        say(f"[red]SIGKILL[/red] of the app (pid {app.pid}) at comment {number}, {what}")
    return killed


async def kill_worker(stack: Stack, worker: WorkerProcess, up_to: int, accepted: int) -> None:
    """Commit the comments up to a number, and kill a worker while so many mails are accepted and not answered."""
    with replies_held(stack.maildir):
        before = count_by_message_id(stack.maildir).total()
        app = await _app(stack, up_to=up_to)
        if await app.wait() != 0:
            raise RuntimeError("the app failed: its error is above")
        say(f"{up_to} comments are committed, each with the start of its notification in the same transaction")
        while count_by_message_id(stack.maildir).total() < before + accepted:
            await asyncio.sleep(0.02)
        worker.kill()
        say(f"[red]SIGKILL[/red] of {worker.name} (pid {worker.pid}) while the mail server holds replies back")


async def _app(stack: Stack, *orders: str, up_to: int = COMMENTS) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "infra.demos.comments_app", stack.dsn, str(up_to), *orders]
    return await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)


async def all_final(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Wait for the end of every notification, and print now and then how far they are."""
    shown = ""
    end = time.monotonic() + timedelta(minutes=3).total_seconds()
    while time.monotonic() < end:
        rows = await connection.fetch("select notification_state s, count(*) n from comment group by 1 order by 1")
        line = "  ".join(f"{row['s']} {row['n']}" for row in rows)
        if line != shown:
            say(f"[dim]{line}[/dim]")
            shown = line
        left = "select (select count(*) from perdure.entity) + (select count(*) from perdure.behind)"
        if not await connection.fetchval(left):
            return
        await asyncio.sleep(0.5)


async def counted(stack: Stack, connection: asyncpg.Connection[asyncpg.Record], apps_killed: int) -> Count:
    """Count at the other side, in the app's table and in the mirror."""
    from activities.mail.message_id import token_with
    from perdure import Entity
    from perdure.contracts import Key

    kept = Counter(
        {each.strip("<>").partition("@")[0]: number for each, number in count_by_message_id(stack.maildir).items()}
    )
    ids = [str(row["id"]) for row in await connection.fetch("select id from comment")]
    tokens = [token_with(MAIL_SECRET, Key.of(Entity(LIFECYCLE, each), "send-mail")) for each in ids]
    agreed = await connection.fetch(
        "select c.id from comment c join perdure.finished f on f.id = c.id::text and f.lifecycle = $1 "
        "where c.notification_state = 'sent' and f.state = 'sent'",
        LIFECYCLE,
    )
    sent = {str(row["id"]) for row in agreed} & {each for each, token in zip(ids, tokens, strict=True) if kept[token]}
    doubts = await connection.fetchrow(
        "select count(*) filter (where settled_by = 'look-up') found, "
        "count(*) filter (where attempts > 1) again from perdure.effect"
    )
    assert doubts is not None
    torn = await connection.fetchval(
        "select count(*) from comment c full join perdure.ident i on i.id = c.id::text "
        "where c.id is null or i.id is null"
    )
    return Count(
        comments=len(ids),
        sent=len(sent),
        lost=sum(1 for token in tokens if not kept[token]),
        duplicated=sum(number - 1 for number in kept.values()) + len(set(kept) - set(tokens)),
        in_doubt=doubts["found"] + doubts["again"],
        settled_by_lookup=doubts["found"],
        torn=torn,
        apps_killed=apps_killed,
        workers_killed=1,
        seconds=0.0,
    )


def show(count: Count) -> None:
    """The table at the end."""
    table = Table(title="counted in the maildir, the app's table and the mirror")
    table.add_column("what")
    table.add_column("count", justify="right")
    table.add_column("", style="dim")
    again = count.in_doubt - count.settled_by_lookup
    rows = [
        ("comments", count.comments, "rows that the app committed"),
        ("sent", count.sent, "in the maildir, and shown as sent by the app's table and the mirror"),
        ("lost", count.lost, "no mail in the maildir"),
        (
            "duplicated",
            count.duplicated,
            "more than one mail with the same Message-ID, or one that nobody asked for",
        ),
        (
            "in doubt",
            count.in_doubt,
            "attempts whose worker was killed: nobody knew whether the mail had gone",
        ),
        (
            "  settled by look-up",
            count.settled_by_lookup,
            "found in the mail log by its Message-ID: not sent again",
        ),
        ("  not found, sent again", again, "the log shows no such mail: it had never been accepted"),
        ("torn", count.torn, "rows without a lifecycle, or lifecycles without a row"),
        ("apps killed", count.apps_killed, "by SIGKILL: in the middle of a transaction, and right after one"),
        ("workers killed", count.workers_killed, "by SIGKILL"),
    ]
    for what, number, note in rows:
        bad = number and what in ("lost", "duplicated", "torn")
        table.add_row(what, f"[red]{number}[/red]" if bad else str(number), note)
    console.print(table)
    say(f"{count.seconds} s; the counts are in build/demo.json")


async def leave_in_doubt(stack: Stack) -> None:
    """Leave mails in doubt to a person: their worker is killed, and the next one does not find the mail log."""
    settings = {**SETTINGS, "PERDURE_MAIL_LOG": str(stack.folder / "lost.log")}
    for worker in stack.workers:
        await worker.end()
    victim = await stack.start_worker("worker-4", **settings)
    await kill_worker(stack, victim, COMMENTS + LEFT_IN_DOUBT, accepted=LEFT_IN_DOUBT)
    say("worker-5 does not find the mail log: after five look-ups, a person has to say whether the mails have gone")
    await stack.start_worker("worker-5", **settings)
    await until_a_person_is_asked(stack.dsn)


async def stay(stack: Stack) -> None:
    """Leave everything up until Ctrl-C, with the console and doubts to settle there."""
    from workers.comments.app import app  # its contracts read their settings when they are imported

    await leave_in_doubt(stack)
    os.environ.update(stack.environment())
    served = ServedConsole(Settings(web_ui=stack.temporal.ui_url), app, stack.folder / "console")
    say(served.invitation)
    say(f"  has a mail gone? grep -rl 'To: reader-{COMMENTS + 1}@' {stack.maildir}")
    say(f"  Web UI: {stack.temporal.ui_url}")
    for name, value in stack.environment().items():
        say(f"  export {name}={value}")
    await served.run()


def say(text: str) -> None:
    """One line for whoever watches."""
    console.print(text, highlight=False, soft_wrap=True)


def main() -> None:
    """Entry point of `make demo`."""
    parser = argparse.ArgumentParser(prog="python -m infra.demos.comments", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave everything up until Ctrl-C")
    try:
        sys.exit(asyncio.run(demo(parser.parse_args().keep)))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
