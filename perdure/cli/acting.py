"""The common part of the acts: on one entity or many, the question before it, the report, and the exit status."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from perdure._operations.acts import Acts
from perdure._operations.bulk import Bulk, Choice, Name, Tally
from perdure._operations.session import Session, session
from perdure._text.shown import one_line
from perdure.app import App
from perdure.cli.app_option import loaded
from perdure.cli.printing import complain, print_line, refuse, refuse_error
from perdure.cli.targets import Targets
from perdure.contracts.keys import Entity
from perdure.errors import PerdureError
from perdure.settings import settings


@dataclass(frozen=True, slots=True)
class Verb:
    """One act, and the words of its command.

    Attributes:
        name: of the command.
        how: what follows the entities in the question, as in `resolve 7 of order as not_done?`.
        done: what follows a number, as in `7 resolved as not_done`.
        act: for one entity, with the parts of it that are meant, if a filter chose it.
        asks_temporal: whether the act sends an update to a workflow.
        ended_too: whether the act applies to finished entities, too, in the database alone.
    """

    name: str
    done: str
    act: Callable[[Acts, Entity, Sequence[Any]], Awaitable[str]]
    how: str = ""
    asks_temporal: bool = True
    ended_too: bool = False


def carry_out(targets: Targets, verb: Verb) -> None:
    """Act on one entity, or on all that are selected, and exit with 0 only if each act was accepted."""
    targets.check()
    try:
        app = loaded(targets.app)
        if targets.entity_id is not None:
            assert targets.of is not None
            asyncio.run(_one(targets, verb, app, Name(targets.of, targets.entity_id)))
            return
        status = asyncio.run(_many(targets, verb, app))
    except PerdureError as error:
        refuse_error(error)
    if status:
        raise typer.Exit(status)


def confirm(question: str, yes: bool, *, dry_run: bool = True) -> None:
    """Ask the person to confirm; exits with 1 if the person declines, and with 2 if there is no terminal.

    Args:
        yes: whether `--yes` was given, so that nobody is asked.
        dry_run: whether the command has `--dry-run`.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        way_out = "give --yes, or --dry-run to see them" if dry_run else "give --yes"
        refuse(f"{question}? There is no terminal for an answer: {way_out}", 2)
    typer.confirm(f"{question}?", abort=True, err=True)


async def _one(targets: Targets, verb: Verb, app: App | None, name: Name) -> None:
    entity = name.entity
    async with session(settings(), app, targets.asked, targets.timeout) as opened:
        asks_temporal = verb.asks_temporal
        if verb.ended_too:
            asks_temporal = not (await opened.client.status(entity.lifecycle, entity.id)).final
        acts = await opened.acts(asks_temporal=asks_temporal)
        print_line(f"{entity}: {await verb.act(acts, entity, ())}")


async def _many(targets: Targets, verb: Verb, app: App | None) -> int:
    after = Name.of(targets.resume_after) if targets.resume_after else None
    async with session(settings(), app, targets.asked, targets.timeout) as opened:
        async with opened.reading() as connection:
            await targets.check_names(connection, app)
            until = await connection.fetchval("select clock_timestamp()")
            count = await targets.count(connection, after, until)
        if not count:
            refuse("nothing matches", 1)
        if targets.dry_run:
            async for page in _pages(targets, opened, after, until):
                for row in page:
                    print_line(targets.shown(row))
            return 0
        _ask(targets, verb, count)
        acts = await opened.acts(asks_temporal=verb.asks_temporal)
        tally = await _carry_out(targets, verb, acts, _choices(targets, opened, after, until), count)
    return _report(tally, verb, count)


async def _choices(targets: Targets, opened: Session, after: Name | None, until: datetime) -> AsyncIterator[Choice]:
    async for page in _pages(targets, opened, after, until):
        async with opened.reading() as connection:
            choices = await targets.choices(connection, page, until)
        for choice in choices:
            yield choice


async def _pages(
    targets: Targets, opened: Session, after: Name | None, until: datetime
) -> AsyncIterator[Sequence[Any]]:
    """The entities that matched when the person was asked. No connection is held between two pages."""
    left = targets.limit
    while left is None or left > 0:
        async with opened.reading() as connection:
            page = await targets.page(connection, after, left, until)
        if not page:
            return
        yield page
        after, left = Name(page[-1].lifecycle, page[-1].id), None if left is None else left - len(page)


def _ask(targets: Targets, verb: Verb, count: int) -> None:
    question = " ".join(
        [verb.name, f"{count:,}", f"of {targets.lifecycle}" if targets.lifecycle else "entities", verb.how]
    )
    confirm(question.strip(), targets.yes)


async def _carry_out(targets: Targets, verb: Verb, acts: Acts, choices: AsyncIterator[Choice], count: int) -> Tally:
    stop = asyncio.Event()
    console = Console(stderr=True, soft_wrap=True)
    columns = (TextColumn(verb.name), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(verb.name, total=count)

        def progress(tally: Tally) -> None:
            bar.update(task, completed=tally.dealt_with)

        def refused(error: PerdureError) -> None:
            console.print(f"perdure: {one_line(error)}", markup=False, highlight=False)

        async def act(choice: Choice) -> str:
            return await verb.act(replace(acts, seen=choice.seen), choice.name.entity, choice.parts)

        bulk = Bulk(act, targets.rate, stop, refused, progress)
        _stop_on_interrupt(stop)
        return await bulk.run(choices)


def _stop_on_interrupt(stop: asyncio.Event) -> None:
    """On Ctrl-C, finish the acts that have begun; a second Ctrl-C interrupts them."""
    loop = asyncio.get_running_loop()

    def interrupted() -> None:
        stop.set()
        loop.remove_signal_handler(signal.SIGINT)

    with suppress(ValueError, RuntimeError):  # not in the main thread
        loop.add_signal_handler(signal.SIGINT, interrupted)


def _report(tally: Tally, verb: Verb, count: int) -> int:
    others = ((tally.refused, "refused"), (tally.unknown, "without an answer"))
    print_line(
        ", ".join([f"{tally.accepted:,} {verb.done}", *(f"{count:,} {what}" for count, what in others if count)])
    )
    go_on = "run it again" + (f", with {shlex.join(['--resume-after', str(tally.last)])}" if tally.last else "")
    if tally.unanswered:
        complain(f"stopped after {tally.dealt_with:,} of {count:,}, since the servers do not answer: {go_on}")
        return 1
    if tally.interrupted:
        complain(f"interrupted after {tally.dealt_with:,} of {count:,}: {go_on}")
        return 130
    if (left := count - tally.dealt_with) > 0:
        complain(f"{left:,} of {count:,} matched no longer when it was their turn")
    return 1 if tally.refused or tally.unknown or left > 0 else 0
