"""Overview: what is wrong, in words; then each lifecycle with its states, and what delivers and works."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from starlette.responses import Response

from perdure._operations.builds import read_builds
from perdure._operations.overview import read_overview, read_queues
from perdure._operations.pace import Pace, read_pace
from perdure._operations.problems import Problem, problems
from perdure._operations.reach import Reach
from perdure.console.page import Page, View
from perdure.console.roles import Role
from perdure.console.sources import Seen, Sources

_FRESH = 2.0
STATES = 30
"""Of one lifecycle that are shown, the most frequent ones."""
_LINKS = {
    "doubts": "/inbox",
    "attention": "/list",
    "stuck": "/list",
    "rejected": "/rejected",
    "findings": "/findings",
    "queue": "/workers",
    "build": "/workers",
}


@dataclass(frozen=True, slots=True)
class _Lifecycle:
    """A row of the table of lifecycles."""

    name: str
    states: Sequence[Mapping[str, Any]]
    doubts: Sequence[Mapping[str, Any]]
    pace: Pace | None


async def show(view: View) -> Response:
    """The page."""
    reach, sources = view.reach(Role.LOOK), view.sources
    seen, queues, versions, pace = await asyncio.gather(
        overview(sources, reach),
        task_queues(sources),
        builds(sources),
        sources.kept("pace", lambda: _pace(sources), fresh=20, stale=60),
    )
    everything = reach.is_everything
    wrong = problems(seen.value, queues.value, versions.value)
    links = {each.path for each in view.console.pages}
    return view.render(
        "overview.html",
        seen=seen,
        queues=queues.value,
        everything=everything,
        problems=[(each, _link(view, each, links)) for each in wrong],
        lifecycles=_lifecycles(seen.value, {name: each for name, each in pace.value.items() if everything}),
    )


async def overview(sources: Sources, reach: Reach) -> Seen[dict[str, Any]]:
    """What the database shows at a glance."""

    async def read() -> dict[str, Any]:
        async with sources.reading() as connection:
            return await read_overview(connection, reach)

    return await sources.kept(("overview", reach), read, fresh=_FRESH, stale=30)


async def task_queues(sources: Sources) -> Seen[list[dict[str, Any]]]:
    """What Temporal answers about the task queues; the reason in each where it does not."""

    async def read() -> list[dict[str, Any]]:
        return await read_queues(await sources.temporal(), sources.app, sources.config)

    return await sources.kept("queues", read, fresh=_FRESH)


async def builds(sources: Sources) -> Seen[list[dict[str, Any]]]:
    """What Temporal answers about the builds; the reason where it does not."""

    async def read() -> list[dict[str, Any]]:
        return await read_builds(await sources.temporal(), sources.config)

    return await sources.kept("builds", read, fresh=10, stale=60)


async def _pace(sources: Sources) -> dict[str, Pace]:
    async with sources.reading() as connection:
        return await read_pace(connection)


def _lifecycles(seen: Mapping[str, Any], pace: Mapping[str, Pace]) -> list[_Lifecycle]:
    rows = {name: list(each) for name, each in groupby(seen["open"], lambda row: row["lifecycle"])}
    names = sorted({*rows, *pace, *(row["lifecycle"] for row in seen["in_doubt"])})
    return [
        _Lifecycle(
            name,
            _most(rows.get(name, [])),
            [row for row in seen["in_doubt"] if row["lifecycle"] == name],
            pace.get(name),
        )
        for name in names
    ]


def _most(states: list[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """In the order in which they are given."""
    least = sorted((row["open"] for row in states), reverse=True)[:STATES]
    return [row for row in states if row["open"] >= least[-1]][:STATES] if states else []


def _link(view: View, problem: Problem, paths: set[str]) -> str | None:
    """To the page that shows more; None where there is none."""
    path = _LINKS.get(problem.kind)
    if path not in paths:
        return None
    more: dict[str, object] = {"lifecycle": problem.lifecycle, "state": problem.state, "effect": problem.effect}
    if problem.kind == "attention":
        more["attention"] = "on"
    return view.link(path, **more)


PAGES = [Page("overview", "/", show, menu="Overview")]
