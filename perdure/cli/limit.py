"""`perdure limit`: the rates that effects keep to, what is in force, and how to change one for the whole fleet."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from temporalio.client import Client

from perdure._operations.connecting import temporal_client
from perdure._operations.durations import shown
from perdure._operations.limits import read_limit, set_limit
from perdure._wire.requests import OperatorRequest
from perdure.app import App
from perdure.cli.app_option import AppOption, required
from perdure.cli.cli import ACT, cli
from perdure.cli.printing import moment, print_json, print_line, print_table, refuse
from perdure.cli.who import By, Note, request
from perdure.contracts.limits import RateLimit
from perdure.contracts.states import suggestion
from perdure.errors import TemporalUnavailable
from perdure.settings import settings

_LOOKS = 20


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

    Temporal keeps the number: it outlives workers and deploys. Exit status 1 if Temporal gave no answer.
    """
    if per_second is not None and (as_declared or not (math.isfinite(per_second) and per_second >= 0)):
        refuse("give a number, zero or more, or --as-declared", 2)
    if name is None and as_declared:
        refuse("--as-declared is of one limit: give its name", 2)
    asked = request(by, note) if per_second is not None or as_declared else None
    rows = asyncio.run(_do(required(app), name, per_second, asked))
    if as_json:
        for row in rows:
            print_json(row)
    else:
        _print(rows)


async def _do(
    app: App, name: str | None, per_second: float | None, asked: OperatorRequest | None
) -> list[dict[str, Any]]:
    if name is not None and name not in app.limits:
        refuse(f"no limit is named {name!r}{suggestion(name, app.limits)}", 2)
    config = settings()
    client = await temporal_client(config, app)
    if isinstance(client, TemporalUnavailable):
        raise client
    chosen = [each for each in app.limits.values() if name in (None, each.name)]
    if asked is not None:
        for each in chosen:
            await set_limit(client, each, config.queue, per_second, asked)
            await _in_force(client, each, config.queue, per_second)
    return [await read_limit(client, each, config.queue) for each in chosen]


async def _in_force(client: Client, limit: RateLimit, lifecycles: str, per_second: float | None) -> None:
    """Wait a moment until the server reports the new rate: each partition of a task queue receives it separately."""
    for _ in range(_LOOKS):
        row = await read_limit(client, limit, lifecycles)
        if (row["set_by"] is None) if per_second is None else (row["per_second"] == per_second):
            return
        await asyncio.sleep(0.1)


def _print(rows: list[dict[str, Any]]) -> None:
    if not rows:
        print_line("this app declares no limits")
        return
    print_table(
        ("limit", "a second", "declared", "backlog", "oldest waits", "handed out a second", "workers", "set by"),
        [
            (
                *(row["limit"], f"{row['per_second']:g}", f"{row['declared']:g}", row["backlog"]),
                *(shown(row["backlog_seconds"]), row["handed_out_per_second"], len(row["pollers"]), _who(row)),
            )
            for row in rows
        ],
    )


def _who(row: Mapping[str, Any]) -> str:
    if row["set_by"] is None:
        return "the code"
    return f"{row['set_by']}, {moment(row['set_at'])}" + (f": {row['note']}" if row["note"] else "")
