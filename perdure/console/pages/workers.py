"""Workers: the pollers of each task queue, the builds, the backlog, and the relays that deliver."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response

from perdure._operations.builds import in_use
from perdure._operations.fleet import read_relays
from perdure.console.page import Page, View
from perdure.console.pages.overview import builds, task_queues
from perdure.errors import PerdureError

GONE = 120
"""Seconds without a sign of life after which a relay is shown as gone."""


async def show(view: View) -> Response:
    """The page: relays are in the database, the rest is read from Temporal, and the page has a note if that is away."""
    sources = view.sources

    async def relays() -> list[dict[str, Any]]:
        async with sources.reading() as connection:
            return await read_relays(connection)

    seen, queues, versions, client = await asyncio.gather(
        sources.kept("relays", relays, fresh=2),
        task_queues(sources),
        builds(sources),
        sources.temporal(),
    )
    errors = [each["error"] for each in queues.value if each["error"]]
    problem = str(client) if isinstance(client, PerdureError) else next(iter(errors), None)
    known = [each for each in versions.value if not each["error"]]
    shown = [each for each in known if in_use(each)]
    return view.render(
        "workers.html",
        seen=seen,
        queues=queues.value,
        builds=shown,
        builds_left_out=len(known) - len(shown),
        builds_problem=next((each["error"] for each in versions.value if each["error"]), None),
        problem=problem,
        processes=_processes(queues.value),
        gone=GONE,
        whole=view.reach().is_everything,
    )


def _processes(queues: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The task queues that each process polls."""
    found: dict[str, list[str]] = {}
    for queue in queues:
        for poller in () if queue["error"] else queue["pollers"]:
            found.setdefault(poller, []).append(f"{queue['task_queue']} ({queue['kind']})")
    return dict(sorted(found.items()))


PAGES = [Page("workers", "/workers", show, menu="Workers")]
