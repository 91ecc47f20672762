"""`perdure doctor`: whether this installation can work, and what mends what is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from perdure._operations.connecting import temporal_client
from perdure._operations.doctor.check import Site, problem_of
from perdure._operations.doctor.checks import Outcome, examine
from perdure._store.postgres import Database
from perdure.app import App
from perdure.cli.app_option import AppOption, loaded
from perdure.cli.cli import LOOK, cli
from perdure.cli.printing import one_line, print_json, print_line
from perdure.errors import PerdureError
from perdure.settings import Settings, settings


@cli.command(epilog="Example: perdure doctor --app shop.app:app", rich_help_panel=LOOK)
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a check")] = False,
    app: AppOption = None,
) -> None:
    """Check settings, PostgreSQL, roles, schema, clocks, TLS and Temporal as a worker would find them here.

    It changes nothing. Exit status 1: something keeps workers from their work; advice alone gives 0. With --app also
    what the app declares, and the checks that it brings.
    """
    outcomes = asyncio.run(_examined(settings(), loaded(app)))
    for outcome in outcomes:
        if as_json:
            print_json(_as_data(outcome))
        else:
            _print(outcome)
    if any(each.failed for each in outcomes):
        raise typer.Exit(1)


async def _examined(config: Settings, app: App | None) -> list[Outcome]:
    database = Database(config.database_url, most=2, closed_path=True)
    reached: list[Outcome] = []
    pool = temporal = None
    try:
        pool = await database.open()
    except PerdureError as error:
        reached.append(Outcome("connection to PostgreSQL", (problem_of(error),)))
    try:
        found = await temporal_client(config, app)
        if isinstance(found, PerdureError):
            raise found
        temporal = found
    except PerdureError as error:
        reached.append(Outcome("connection to Temporal", (problem_of(error),)))
    try:
        return [*reached, *await examine(Site(config, app, pool, temporal))]
    finally:
        await database.close()


def _as_data(outcome: Outcome) -> dict[str, object]:
    result = "left out" if outcome.without else "failed" if outcome.failed else "advice" if outcome.problems else "ok"
    problems: Sequence[object] = [asdict(each) for each in outcome.problems]
    return {"check": outcome.name, "result": result, "without": outcome.without, "problems": problems}


def _print(outcome: Outcome) -> None:
    if outcome.without:
        print_line(f"-     {outcome.name}: left out, it needs {outcome.without}")
    elif not outcome.problems:
        print_line(f"ok    {outcome.name}")
    for each in outcome.problems:
        print_line(f"{'FAIL' if each.serious else 'hint'}  {outcome.name}: {one_line(each.what)}")
        if each.mend:
            print_line(f"      {one_line(each.mend)}")
