"""`perdure doubts`: effects whose outcome is unknown, and how to settle each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from perdure._operations.doubts import Doubt, DoubtSelection, count_doubts, read_doubts
from perdure._operations.selection import Selection, check
from perdure.app import App
from perdure.cli.app_option import AppOption, loaded
from perdure.cli.cli import LOOK, cli
from perdure.cli.database import reading
from perdure.cli.printing import MOST, complain, moment, print_json, print_line, print_table, refuse, refuse_error
from perdure.errors import InvalidSetting


@cli.command("doubts", epilog="Example: perdure doubts --ended --lifecycle order", rich_help_panel=LOOK)
def doubts(
    lifecycle: Annotated[str | None, typer.Option(help="those of this lifecycle")] = None,
    effect: Annotated[str | None, typer.Option(help="those of this effect")] = None,
    ended: Annotated[
        bool, typer.Option("--ended", help="those whose entity has ended: nothing waits for their outcome any more")
    ] = False,
    limit: Annotated[int, typer.Option(help="at most so many", min=1, max=MOST)] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a line")] = False,
    app: AppOption = None,
) -> None:
    """List effects in doubt, the oldest first, with the keys that the other side was given, and how to settle them.

    Exit status 1 if nothing is in doubt, 2 if there is no such lifecycle.
    """
    wanted = DoubtSelection(lifecycle=lifecycle, ended=ended, effect=effect, limit=limit)
    try:
        found, total = asyncio.run(_read(wanted, loaded(app)))
    except InvalidSetting as error:
        refuse_error(error)
    if not found:
        refuse("nothing is in doubt" if wanted == DoubtSelection(limit=limit) else "nothing in doubt matches", 1)
    if as_json:
        for each in found:
            print_json({**asdict(each), "token": each.token, "resolve": each.resolve})
        return
    _print(found)
    if total > len(found):
        complain(f"{len(found)} of {total}; --limit shows more")


async def _read(wanted: DoubtSelection, app: App | None) -> tuple[list[Doubt], int]:
    async with reading() as connection:
        await check(connection, Selection(lifecycle=wanted.lifecycle), app)
        return await read_doubts(connection, wanted), await count_doubts(connection, wanted)


def _print(found: Sequence[Doubt]) -> None:
    columns = ("entity", "effect", "state", "since", "waits for", "key", "token")
    rows = [
        (
            *(
                f"{each.lifecycle}/{each.id}",
                each.effect,
                f"{each.state}; outcome unknown" if each.ended else each.state,
            ),
            *(moment(each.since), "a person" if each.waits_for_person else "its doubt policy", each.key, each.token),
        )
        for each in found
    ]
    print_table(columns, rows)
    if commands := [each.resolve for each in found if each.resolve]:
        print_line(
            "\nto settle them, with OUTCOME = done (and --receipt FILE where it has one), not_done or abandoned:"
        )
        print_line("\n".join(commands))
