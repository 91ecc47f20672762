"""`perdure rejected`: what could not be delivered, to be delivered again or given up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from perdure._operations.bulk import UNANSWERED
from perdure._operations.rejected import (
    Rejected,
    RejectedSelection,
    drop_rejected,
    retry_rejected,
    select_rejected,
    starts_last,
)
from perdure._operations.selection import check_lifecycle
from perdure._store.postgres import Pool
from perdure._store.schema.kinds import Kind
from perdure._text.shown import one_line
from perdure.cli.acting import confirm
from perdure.cli.cli import ACT, cli
from perdure.cli.database import begun, opened, reading
from perdure.cli.printing import MOST, complain, moment, print_json, print_line, print_table, refuse
from perdure.cli.who import By, Note, request
from perdure.errors import DatabaseUnavailable, InvalidInput, NoSuchEntity, NotNow, NotPermitted

Seqs = Annotated[
    list[int] | None,
    typer.Argument(metavar="[SEQ]...", min=1, max=2**63 - 1, help="numbers that `perdure rejected list` shows"),
]
OfLifecycle = Annotated[str | None, typer.Option("--lifecycle", help="those of this lifecycle")]
WithReason = Annotated[str | None, typer.Option("--reason", help="those whose reason contains this text")]
AtMost = Annotated[int | None, typer.Option("--limit", help="at most so many, the oldest first", min=1, max=MOST)]
DontAsk = Annotated[bool, typer.Option("--yes", help="with a filter: do not ask for confirmation")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="with a filter: list them, do nothing")]

Act = Callable[[Pool, int], Awaitable[str]]

group: typer.Typer = typer.Typer(
    no_args_is_help=True, help="What could not be delivered: list it, deliver it again, drop it."
)
cli.add_typer(group, name="rejected", rich_help_panel=ACT)


@group.command("list", epilog="Example: perdure rejected list --lifecycle order")
def list_rejected(
    lifecycle: OfLifecycle = None,
    reason: WithReason = None,
    limit: Annotated[int, typer.Option(help="at most so many", min=1, max=MOST)] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a line")] = False,
) -> None:
    """List what was rejected, the oldest first."""
    rows = asyncio.run(_rows(lifecycle, reason, limit))
    if as_json:
        for row in rows:
            print_json(asdict(row))
    elif rows:
        cells = [(row.seq, _entity(row), row.kind, moment(row.rejected_at), row.reason) for row in rows]
        print_table(("seq", "entity", "kind", "rejected at", "reason"), cells)
    else:
        print_line("nothing was rejected")


@group.command("retry", epilog="Example: perdure rejected retry --lifecycle order --reason 'no worker' --by ann")
def retry(
    seqs: Seqs = None,
    by: By = "",
    note: Note = "",
    given: Annotated[
        typer.FileText | None, typer.Option("--input", help="a start's corrected input, JSON; - = standard input")
    ] = None,
    lifecycle: OfLifecycle = None,
    reason: WithReason = None,
    limit: AtMost = None,
    yes: DontAsk = False,
    dry_run: DryRun = False,
) -> None:
    """Deliver again: a start, or a message as the last of its entity's. By number, or all that a filter chooses.

    Exit status 1 if one was refused or nothing matches.
    """
    if given is not None and len(seqs or ()) != 1:
        raise typer.BadParameter("--input corrects one start: give one SEQ")
    corrected = None if given is None else _json(given)
    asked = request(by, note)
    if chosen := _chosen("retry", seqs, lifecycle, reason, limit, yes, dry_run):
        _carry_out(
            "delivered again", lambda pool, seq: retry_rejected(pool, seq, asked, corrected), chosen, named=bool(seqs)
        )


@group.command("drop", epilog="Example: perdure rejected drop 17 --by ann --note 'a test'")
def drop(
    seqs: Seqs = None,
    by: By = "",
    note: Note = "",
    lifecycle: OfLifecycle = None,
    reason: WithReason = None,
    limit: AtMost = None,
    yes: DontAsk = False,
    dry_run: DryRun = False,
) -> None:
    """Give up: a first start as if it had never been, a restart so that the entity is finished again, a message.

    By number, or all that a filter chooses. Exit status 1 if one was refused or nothing matches.
    """
    asked = request(by, note)
    if chosen := _chosen("drop", seqs, lifecycle, reason, limit, yes, dry_run):
        ordered = asyncio.run(_starts_last(chosen))
        _carry_out("dropped", lambda pool, seq: drop_rejected(pool, seq, asked), ordered, named=bool(seqs))


def _chosen(
    verb: str,
    seqs: Sequence[int] | None,
    lifecycle: str | None,
    reason: str | None,
    limit: int | None,
    yes: bool,
    dry_run: bool,
) -> list[int]:
    """The numbers that were given, or those that the filter chooses, once the person has agreed to that many."""
    filtered = lifecycle is not None or reason is not None
    if seqs and (filtered or limit or yes or dry_run):
        refuse("give SEQ, or a filter, not both", 2)
    if seqs:
        return list(seqs)
    if not filtered:
        refuse("give SEQ, or a filter: --lifecycle, --reason", 2)
    rows = asyncio.run(_rows(lifecycle, reason, limit))
    if not rows:
        refuse("nothing that was rejected matches", 1)
    if dry_run:
        for row in rows:
            print_line(one_line(f"{row.seq}  {_entity(row)}  {row.kind}  {row.reason}"))
        return []
    confirm(f"{verb} {len(rows):,} that were rejected", yes)
    return [row.seq for row in rows]


def _carry_out(done: str, act: Act, seqs: Sequence[int], *, named: bool) -> None:
    accepted, failed = asyncio.run(_each(done, act, seqs, named=named))
    if not named:
        print_line(f"{accepted:,} {done}" + (f", {failed:,} refused" if failed else ""))
    if failed:
        raise typer.Exit(1)


async def _each(done: str, act: Act, seqs: Sequence[int], *, named: bool) -> tuple[int, int]:
    """Each in a transaction of its own: what can't be done harms none of the others, and nothing is held for long.

    Raises:
        DatabaseUnavailable: so many in a row had no answer that one entity is not the cause.
    """
    accepted = failed = in_a_row = 0
    async with opened(Kind.OPERATOR) as pool:
        for seq in seqs:
            try:
                kind = await act(pool, seq)
            except (DatabaseUnavailable, InvalidInput, NoSuchEntity, NotNow, NotPermitted) as error:
                in_a_row = in_a_row + 1 if isinstance(error, DatabaseUnavailable) else 0
                if in_a_row == UNANSWERED:
                    raise
                failed += 1
                complain(f"{seq}: {error} [{error.code}]")
                continue
            in_a_row = 0
            accepted += 1
            if named:
                print_line(f"{seq}: {kind} {done}")
    return accepted, failed


async def _starts_last(seqs: Sequence[int]) -> list[int]:
    async with begun(Kind.OPERATOR, reads=True) as connection:
        return await starts_last(connection, seqs)


async def _rows(lifecycle: str | None, reason: str | None, limit: int | None) -> list[Rejected]:
    async with reading() as connection:
        found = await select_rejected(connection, RejectedSelection(lifecycle, reason), limit)
        if lifecycle is not None and not found:
            await check_lifecycle(connection, lifecycle)
        return found


def _entity(row: Rejected) -> str:
    return f"{row.lifecycle}/{row.id}" + (f"~{row.generation}" if row.generation else "")


def _json(file: typer.FileText) -> str:
    text = file.read()
    try:
        json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"{file.name} is no JSON: {error}", param_hint="--input") from None
    return text
