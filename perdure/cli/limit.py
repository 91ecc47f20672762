"""`perdure limit`: the rates that effects keep to, what is in force, and how to change one for the whole fleet."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from perdure._operations.connecting import temporal_client, why_not_compared
from perdure._operations.durations import shown
from perdure._operations.limits import check_rate, read_limit, set_limit
from perdure._text.shown import one_line
from perdure._wire.requests import OperatorRequest
from perdure.app import App
from perdure.cli.app_option import AppOption, required
from perdure.cli.cli import ACT, cli
from perdure.cli.database import reading
from perdure.cli.printing import complain, moment, print_json, print_line, print_note, print_table, refuse
from perdure.cli.who import By, Note, request
from perdure.contracts.states import suggestion
from perdure.errors import TemporalUnavailable
from perdure.settings import settings


@cli.command(
    epilog="Example: perdure limit telephony 20 --by ann --note 'they asked us to slow down'", rich_help_panel=ACT
)
def limit(
    name: Annotated[str | None, typer.Argument(help="of the limit; without one, all are shown")] = None,
    per_second: Annotated[
        float | None, typer.Argument(help="attempts and look-ups a second; 0 = none go", show_default=False)
    ] = None,
    as_declared: Annotated[bool, typer.Option("--as-declared", help="back to the limit in the code")] = False,
    by: By = "",
    note: Note = "",
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a line")] = False,
    app: AppOption = None,
) -> None:
    """Show the rates of limits; with a number, change one for all workers, at once and until it is changed again.

    Temporal keeps the number: it outlives workers and deploys. Exit status 1 if Temporal gave no answer, does not keep
    to the number because its own bound is lower, or no worker polls the task queue of the limit.
    """
    if per_second is not None and as_declared:
        refuse("give a number, or --as-declared", 2)
    if per_second is not None:
        check_rate(per_second)
    if name is None and as_declared:
        refuse("--as-declared is of one limit: give its name", 2)
    asked = request(by, note) if per_second is not None or as_declared else None
    rows = asyncio.run(_do(required(app), name, per_second, asked))
    if as_json:
        for row in rows:
            print_json(row)
    else:
        _print(rows)
    if asked is not None and not _report(rows[0]):
        raise typer.Exit(1)


async def _do(
    app: App, name: str | None, per_second: float | None, asked: OperatorRequest | None
) -> list[dict[str, Any]]:
    if name is not None and name not in app.limits:
        refuse(f"no limit is named {name!r}{suggestion(name, app.limits)}", 2)
    config = settings()
    client = await temporal_client(config, app)
    if isinstance(client, TemporalUnavailable):
        raise client
    if "database_url" in config.model_fields_set and (why := await why_not_compared(reading(), client, config)):
        print_note(f"whether this scope is the database's own is not known: {one_line(why)}")
    if asked is not None and name is not None:
        return [await set_limit(client, app.limits[name], config.queue, per_second, asked)]
    chosen = [each for each in app.limits.values() if name in (None, each.name)]
    return [await read_limit(client, each, config.queue) for each in chosen]


def _report(row: Mapping[str, Any]) -> bool:
    """Whether what was set is in force, for workers that run."""
    if not row["pollers"]:
        complain(
            f"the rate is stored, and no worker has polled {row['task_queue']} in the last five minutes: "
            "if workers run, their PERDURE_TASK_QUEUE, PERDURE_SCOPE or namespace is another one, and they go on"
        )
    if row["set_to"] in (None, row["per_second"]):
        return bool(row["pollers"])
    complain(
        f"{row['set_to']:.7g} a second is not in force, {row['per_second']:.7g} is: Temporal allows no more for a task "
        "queue (`admin.matchingNamespaceTaskqueueToPartitionDispatchRate` in its dynamic configuration)"
    )
    return False


def _print(rows: list[dict[str, Any]]) -> None:
    if not rows:
        print_line("this app declares no limits")
        return
    print_table(
        ("limit", "a second", "declared", "backlog", "oldest waits", "handed out a second", "workers", "set by"),
        [
            (
                *(row["limit"], f"{row['per_second']:.7g}", f"{row['declared']:.7g}", row["backlog"]),
                *(shown(row["backlog_seconds"]), row["handed_out_per_second"], len(row["pollers"]), _who(row)),
            )
            for row in rows
        ],
    )


def _who(row: Mapping[str, Any]) -> str:
    if row["set_by"] is None:
        return "the code"
    return f"{row['set_by']}, {moment(row['set_at'])}" + (f": {row['note']}" if row["note"] else "")
