"""The Typer application that every command of `perdure` is registered with, and what an application adds to it."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperGroup

from perdure._loading import load
from perdure._worker.worker import load_app
from perdure.cli.printing import print_line
from perdure.errors import DeclarationError

APP = "PERDURE_APP"

LOOK, ACT, MEND = "Look", "Act", "Mend, keep and forget"
RUN, ENCRYPT, OF_APPLICATION = "Set up and run", "Encryption", "Commands of the application"
PANELS = (LOOK, ACT, MEND, RUN, ENCRYPT)
"""Panels of `perdure --help`, in their order; those of the application follow."""


class WithApplication(TyperGroup):
    """Finds the groups of commands of the application that PERDURE_APP names, besides perdure's own.

    The application is imported when one of its words is used, or the list of all commands is shown.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """See base class."""
        return [*sorted(super().list_commands(ctx), key=self._panel), *_groups()]

    def _panel(self, name: str) -> int:
        return PANELS.index(getattr(self.commands[name], "rich_help_panel", ""))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """See base class.

        Raises:
            DeclarationError: the application, or a group of commands that it names, does not exist.
        """
        own = super().get_command(ctx, cmd_name)
        return own or _of_application(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """See base class."""
        if args and APP not in os.environ and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"No such command {args[0]!r}; if it is one of your application's, set {APP}=package.module:name")
        return super().resolve_command(ctx, args)


cli: typer.Typer = typer.Typer(
    cls=WithApplication,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print_line(f"perdure {version('perdure')}")
        raise typer.Exit


@cli.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="show the version", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """The command `perdure`. Further groups come from the application that PERDURE_APP names."""


def _groups() -> dict[str, str]:
    named = os.environ.get(APP)
    return load_app(named).commands if named else {}


def _of_application(word: str) -> Any:
    path = _groups().get(word)
    if path is None:
        return None
    try:
        found = load(path)
    except DeclarationError as error:
        raise DeclarationError(f"App(commands={{{word!r}: {path!r}}}): {error}") from error
    if not isinstance(found, typer.Typer):
        raise DeclarationError(f"App(commands={{{word!r}: {path!r}}}) is a {type(found).__name__}, not a typer.Typer")
    group = typer.main.get_group(found)
    group.name = word
    group.rich_help_panel = OF_APPLICATION
    return group
