"""`perdure rejected`: what could not be delivered, to be delivered again or given up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated, Any

import asyncpg
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perdure.command.cli import cli
from perdure.command.database import transaction
from perdure.command.who import By, Note, request
from perdure.queries import query

Seqs = Annotated[list[int], typer.Argument(metavar="SEQ...", help="numbers that `perdure rejected list` shows")]

_REFUSED = (asyncpg.DataError, asyncpg.NoDataFoundError, asyncpg.ObjectNotInPrerequisiteStateError)

group = typer.Typer(no_args_is_help=True, help="What could not be delivered: list it, deliver it again, drop it.")
cli.add_typer(group, name="rejected")


@group.command("list", epilog="Example: perdure rejected list --lifecycle order")
def list_rejected(
    lifecycle: Annotated[str | None, typer.Option(help="only of this lifecycle")] = None,
    limit: Annotated[int, typer.Option(help="at most so many", min=1)] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a line")] = False,
) -> None:
    """List what was rejected, the oldest first."""
    rows = asyncio.run(_rows(lifecycle, limit))
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row, default=str, ensure_ascii=False))
    elif rows:
        Console(soft_wrap=True).print(_table(rows))
    else:
        typer.echo("nothing was rejected")


@group.command("retry", epilog="Example: perdure rejected retry 17 --input corrected.json --by ann")
def retry(
    seqs: Seqs,
    by: By = "",
    note: Note = "",
    given: Annotated[
        typer.FileText | None, typer.Option("--input", help="a start's corrected input, JSON; - = standard input")
    ] = None,
) -> None:
    """Deliver again: a start, or a message as the last of its entity's."""
    if given is not None and len(seqs) != 1:
        raise typer.BadParameter("--input corrects one start: give one SEQ")
    corrected = None if given is None else _json(given)
    _carry_out(
        "delivered again", "select perdure.retry_rejected($1, $2, $3, $4::jsonb)", seqs, request(by).by, note, corrected
    )


@group.command("drop", epilog="Example: perdure rejected drop 17 --by ann --note 'a test'")
def drop(seqs: Seqs, by: By = "", note: Note = "") -> None:
    """Give up: a first start as if it had never been, a restart so that the entity is finished again, a message."""
    _carry_out("dropped", "select perdure.drop_rejected($1, $2, $3)", seqs, request(by).by, note)


def _carry_out(done: str, call: str, seqs: Sequence[int], *given: str | None) -> None:
    failed = 0
    for seq, answer in asyncio.run(_calls(call, seqs, *given)):
        if isinstance(answer, str):
            typer.echo(f"{seq}: {answer} {done}")
        else:
            failed += 1
            typer.echo(f"perdure: {seq}: {_sentence(answer)}", err=True)
    if failed:
        raise typer.Exit(1)


async def _calls(call: str, seqs: Sequence[int], *given: str | None) -> list[tuple[int, str | BaseException]]:
    """Each for itself: what can't be done harms none of the others."""
    answers: list[tuple[int, str | BaseException]] = []
    async with transaction() as connection:
        for seq in seqs:
            try:
                async with connection.transaction():
                    answers.append((seq, str(await connection.fetchval(call, seq, *given))))
            except _REFUSED as error:
                answers.append((seq, error))
    return answers


async def _rows(lifecycle: str | None, limit: int) -> list[dict[str, Any]]:
    async with transaction() as connection:
        return [dict(row) for row in await connection.fetch(query("rejected"), lifecycle, limit)]


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table("seq", "entity", "kind", "rejected at", "reason")
    for row in rows:
        entity = f"{row['lifecycle']}/{row['id']}" + (f"~{row['round']}" if row["round"] else "")
        at = f"{row['rejected_at']:%Y-%m-%d %H:%M:%S %Z}"
        table.add_row(str(row["seq"]), *(Text(part) for part in (entity, row["kind"], at, row["reason"])))
    return table


def _json(file: typer.FileText) -> str:
    text = file.read()
    try:
        json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"{file.name} is no JSON: {error}", param_hint="--input") from None
    return text


def _sentence(error: BaseException) -> str:
    hint = getattr(error, "hint", None)
    return f"{error.args[0]}: {hint}" if hint else str(error)
