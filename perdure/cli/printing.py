"""How the commands print: tables on a terminal; in a pipe plain columns, without colours, boxes or cut lines.

Commands that an application adds print by these functions, too. `one_line` and `lines` make text safe to show that
comes from data: no character in it moves the cursor, or adds a line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perdure._text.shown import json_text
from perdure._text.shown import lines as lines
from perdure._text.shown import one_line as one_line
from perdure.errors import DeclarationError, InvalidEntity, InvalidSetting, PerdureError, UnknownLifecycle

_watching: ContextVar[Console | None] = ContextVar("watching", default=None)
"""What is printed goes there, while a screen is made for `perdure.cli.watching`."""
_WRONG_USAGE = (InvalidSetting, InvalidEntity, UnknownLifecycle, DeclarationError)
MOST = 2**31 - 1
"""Of what one command lists or acts on."""
_LEAST = 12
"""Characters that are left of a column that is cut."""


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str | None = None, cut: Sequence[str] = ()
) -> None:
    """Print rows.

    Args:
        cut: columns that may be cut on a terminal that is too narrow for them.
    """
    console = _watching.get() or Console(soft_wrap=True)
    cells = [["" if each is None else one_line(each) for each in row] for row in rows]
    if not console.is_terminal:
        print_line("\n".join(([title] if title else []) + _plain([list(columns), *cells])))
        return
    table = Table(title=title, title_justify="left")
    # Rich would fold the columns that it may, rather than cut the ones that it may.
    others = [n for n, name in enumerate(columns) if name not in cut]
    room = console.width - 3 * len(columns) - 1 - sum(_width(columns, cells)[n] for n in others)
    for name in columns:
        if name in cut:
            table.add_column(name, overflow="ellipsis", no_wrap=True, max_width=max(room, _LEAST))
        else:
            table.add_column(name, overflow="fold")
    for row in cells:
        table.add_row(*(Text(each) for each in row))
    (_watching.get() or Console()).print(table)


def print_line(text: str = "") -> None:
    """Print text, of one line or of several."""
    console = _watching.get()
    if console is None:
        typer.echo(lines(text))
    else:
        console.print(lines(text), markup=False, highlight=False)


def print_note(text: str) -> None:
    """Print what is beside the result: on standard error, so that a pipe has the result alone."""
    if _watching.get() is None:
        typer.echo(lines(text), err=True)
    else:
        print_line(text)


def print_progress(text: str, *, end: bool = False) -> None:
    """Print how far something is, in place of what was printed of it before."""
    typer.echo(f"\r{one_line(text)}", err=True, nl=end)


def print_json(data: Any) -> None:
    """Print one JSON object in one line."""
    typer.echo(json_text(json.dumps(data, default=_value, ensure_ascii=False)))


def complain(what: object) -> None:
    """Print one line about a mistake on standard error."""
    typer.echo(f"perdure: {one_line(what)}", err=True)


def explain(error: PerdureError) -> int:
    """Print an error with its code on standard error, and return the exit status. A traceback of the app's own code
    follows in lines of its own.
    """
    first, *more = str(error).split("\n")
    typer.echo("perdure: " + lines("\n".join((f"{first} [{error.code}]", *more))), err=True)
    return exit_status(error)


def exit_status(error: Exception) -> int:
    """2 = wrong usage, an unknown name, or an app that can't be used; 1 = the command could not do it."""
    return 2 if isinstance(error, _WRONG_USAGE) else 1


def refuse(why: object, status: int) -> NoReturn:
    """Print one line on standard error, and exit: 1 = the command could not do it, 2 = wrong usage."""
    complain(why)
    raise typer.Exit(status)


def refuse_error(error: PerdureError) -> NoReturn:
    """Explain an error, and exit with its status."""
    raise typer.Exit(explain(error))


def printed(print_it: Callable[[], None], console: Console) -> Text:
    """What `print_it` prints, in place of printing it."""
    token = _watching.set(console)
    try:
        with console.capture() as captured:
            print_it()
    finally:
        _watching.reset(token)
    return Text.from_ansi(captured.get())


def moment(when: datetime | None) -> str:
    """A time of the database's, to the second."""
    return "" if when is None else f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _width(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(row[n]) for row in [columns, *rows]) for n in range(len(columns))]


def _plain(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = _width(rows[0], rows)
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return [line.rstrip() for line in lines]


def _value(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
