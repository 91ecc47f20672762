"""`perdure status`: how everything stands, at a glance."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

import typer

from perdure._operations.builds import in_use, read_builds
from perdure._operations.connecting import bound, read_binding, temporal_client
from perdure._operations.durations import shown
from perdure._operations.overview import read_overview, read_queues
from perdure._operations.problems import refusal
from perdure._text.shown import one_line
from perdure.app import App
from perdure.cli.app_option import AppOption, loaded
from perdure.cli.cli import LOOK, cli
from perdure.cli.database import reading
from perdure.cli.printing import moment, print_json, print_line, print_table, refuse
from perdure.cli.watching import Every, Watch, watch
from perdure.settings import settings


@cli.command(epilog="Example: perdure status --json", rich_help_panel=LOOK)
def status(
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object, for scripts")] = False,
    watched: Watch = False,
    every: Every = 2.0,
    app: AppOption = None,
) -> None:
    """Show how everything stands: what is open and who has its next step, what is in doubt, what waits, what was found.

    Exit status 1 where Temporal did not answer, or the database works with another one or another scope: the rest is
    shown. With --app also the task queues of its effects.
    Where workers are versioned, each build with its open lifecycles: an old build without any can be stopped.
    """
    declared = loaded(app)
    if watched:
        watch(lambda: partial(_print, asyncio.run(_read(declared))), every, as_json=as_json)
    seen = asyncio.run(_read(declared))
    if as_json:
        print_json(seen)
    else:
        _print(seen)
    if problem := next((each["error"] for each in [*seen["task_queues"], *seen["builds"]] if each["error"]), None):
        refuse(problem, 1)


async def _read(app: App | None) -> dict[str, Any]:
    config = settings()
    asking = asyncio.create_task(temporal_client(config, app))
    try:
        async with reading() as connection:
            seen, binding = await read_overview(connection), await read_binding(connection)
        client = await bound(await asking, config, binding)
        queues, builds = await asyncio.gather(read_queues(client, app, config), read_builds(client, config))
        return {**seen, "task_queues": queues, "builds": builds}
    finally:
        asking.cancel()


def _print(seen: Mapping[str, Any]) -> None:
    _print_open(seen)
    _print_conditions(seen)
    _print_doubts(seen)
    _print_outbox(seen["outbox"])
    _print_queues(seen)
    _print_builds(seen)
    _print_findings(seen)


def _print_open(seen: Mapping[str, Any]) -> None:
    if not seen["open"]:
        print_line("no open lifecycles")
        return
    names = ("lifecycle", "state", "open")
    rows = [
        (*(row[name] for name in names), shown(row["oldest_seconds"]), row["stuck"], row["attention"])
        for row in seen["open"]
    ]
    print_table((*names, "oldest", "stuck", "attention"), rows, title="open")


def _print_conditions(seen: Mapping[str, Any]) -> None:
    counts = {name.replace("-", " "): count for name, count in seen["conditions"].items()}
    if seen["finished_estimated"]:
        counts["finished"] = f"≈ {counts['finished']}"
    print_table(list(counts), [list(counts.values())], title="\nconditions")


def _print_doubts(seen: Mapping[str, Any]) -> None:
    names = ("lifecycle", "effect", "in_doubt", "parked", "ended")
    rows = [(*(row[name] for name in names), shown(row["oldest_seconds"])) for row in seen["in_doubt"]]
    if rows:
        print_table(("lifecycle", "effect", "in doubt", "parked", "ended", "oldest"), rows, title="\nin doubt")
    if any(row["ended"] for row in seen["in_doubt"]):
        print_line("those of ended entities need no answer; `perdure doubts --ended` lists them")


def _print_outbox(found: Mapping[str, Any]) -> None:
    columns = ("waiting", "oldest waits", "due later", "rejected", "app rows behind")
    numbers = (found[name] for name in ("due_later", "rejected", "rows_behind"))
    print_table(columns, [(found["waiting"], shown(found["lag_seconds"]), *numbers)], title="\ndelivery")
    if row := found["refused_row"]:
        print_line(one_line(refusal(row)))


def _print_queues(seen: Mapping[str, Any]) -> None:
    rows = []
    for each in seen["task_queues"]:
        figures: tuple[object, ...] = ("no answer",)
        if each["error"] is None:
            figures = (each["backlog"], shown(each["backlog_seconds"]), len(each["pollers"]))
        rows.append((each["task_queue"], each["kind"], *figures, *[""] * (3 - len(figures))))
    print_table(("task queue", "kind", "backlog", "oldest waits", "pollers"), rows, title="\ntask queues")


def _print_builds(seen: Mapping[str, Any]) -> None:
    if any(each["error"] for each in seen["builds"]):
        print_line("\nbuilds\nnot known: where workers are versioned, those of each build must stay")
        return
    names, now = ("deployment", "build", "status"), datetime.now(UTC)
    shown_ones = [each for each in seen["builds"] if in_use(each)]
    rows = [
        (
            *(each[name] for name in names),
            shown((now - each["since"]).total_seconds()) if each["since"] else "",
            *(each[name] for name in ("open", "workers", "why")),
        )
        for each in shown_ones
    ]
    if rows:
        print_table((*names, "for", "open", "workers", "must its workers stay?"), rows, title="\nbuilds")
    if left_out := len(seen["builds"]) - len(rows):
        print_line(f"not shown, because they have neither open lifecycles nor workers: {left_out}")
    for each in shown_ones:
        if each["wake"]:
            print_line(
                f"what only waits leaves {each['deployment']}:{each['build']} at once by (Temporal 1.32 or newer):"
            )
            print_line(f"  {each['wake']}")


def _print_findings(seen: Mapping[str, Any]) -> None:
    if rows := [(row["kind"], row["left_over"], row["mended"], moment(row["since"])) for row in seen["findings"]]:
        print_table(("kind", "left for a person", "mended", "since"), rows, title="\nfindings")
    last = seen["reconciliation"]
    if last is None:
        print_line("\nno reconciliation has run yet")
        return
    took = f"ended {moment(last['ended_at'])}" if last["ended_at"] else "has not ended"
    counts = f"{last['seen']} seen, {last['mended']} mended, {last['reported']} reported"
    print_line(
        f"\nlast reconciliation: {shown(last['age_seconds'])} ago, {took}, {counts}, requested by {last['asked_by']}"
    )
