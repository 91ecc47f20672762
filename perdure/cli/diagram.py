"""`perdure diagram`: a lifecycle's declaration as a picture, for pages that render Mermaid."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from perdure._operations.diagram import diagram
from perdure._operations.entity import read_record
from perdure.cli.app_option import AppOption, required
from perdure.cli.cli import LOOK, cli
from perdure.cli.database import reading
from perdure.cli.printing import refuse_error
from perdure.errors import NoSuchEntity, UnknownLifecycle


@cli.command(
    "diagram",
    epilog="Example: perdure diagram order --app shop.app:app > states.mmd",
    rich_help_panel=LOOK,
)
def draw(
    lifecycle: Annotated[str, typer.Argument(help="its name")],
    app: AppOption = None,
    entity: Annotated[str | None, typer.Option(metavar="ID", help="mark the state that this entity is in")] = None,
) -> None:
    """Print a lifecycle's states and effects as a Mermaid diagram. Without --entity no server is asked."""
    try:
        declared = required(app).lifecycle(lifecycle)
    except UnknownLifecycle as error:
        refuse_error(error)
    here = None if entity is None else declared.declared.today(asyncio.run(_state(lifecycle, entity)))
    typer.echo(diagram(declared, here), nl=False)


async def _state(lifecycle: str, entity_id: str) -> str:
    try:
        async with reading() as connection:
            return str((await read_record(connection, lifecycle, entity_id)).row["state"])
    except NoSuchEntity as error:
        refuse_error(error)
