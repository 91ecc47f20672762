"""The web app of `make demo`: commits comments, each with the start of its notification in the same transaction.

A process of its own, so that it can be killed: between the insert and the commit, and right after a commit.
"""

from __future__ import annotations

import argparse
import asyncio

import asyncpg

from activities.comments.contracts import Comment
from perdure import Client

INSERTED, COMMITTED = "inserted", "committed"
"""Printed, with the number of the comment, before it waits to be killed."""


async def comment(dsn: str, until: int, wait_when: str, wait_at: int) -> None:
    """Commit comments until there are `until`; stand still in the middle of one, or right after it."""
    client, connection = Client(), await asyncpg.connect(dsn)
    present = await connection.fetchval("select count(*) from comment")
    for number in range(present + 1, until + 1):
        async with connection.transaction():
            row = await connection.fetchrow(
                "insert into comment (post_id, author, body, recipient) values ($1, $2, $3, $4) returning *",
                number % 7,
                f"author-{number % 5}",
                f"This is comment number {number}.",
                f"reader-{number}@example.org",
            )
            assert row is not None
            given = Comment(**{name: row[name] for name in Comment.model_fields})
            await client.start("comment-notification", given.id, given, connection=connection)
            await _stand_still(INSERTED, number, wait_when, wait_at)
        await _stand_still(COMMITTED, number, wait_when, wait_at)


async def _stand_still(where: str, number: int, wait_when: str, wait_at: int) -> None:
    if (where, number) == (wait_when, wait_at):
        print(where, number, flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Entry point: `python -m infra.demos.comments_app DSN UNTIL [inserted|committed NUMBER]`."""
    parser = argparse.ArgumentParser(prog="python -m infra.demos.comments_app", description=__doc__)
    parser.add_argument("dsn")
    parser.add_argument("until", type=int)
    parser.add_argument("wait_when", nargs="?", default="", help=f"{INSERTED} or {COMMITTED}")
    parser.add_argument("wait_at", nargs="?", type=int, default=0)
    given = parser.parse_args()
    asyncio.run(comment(given.dsn, given.until, given.wait_when, given.wait_at))


if __name__ == "__main__":
    main()
