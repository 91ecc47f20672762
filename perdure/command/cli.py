"""The Typer application that every command of `perdure` is registered with."""

from __future__ import annotations

import typer

cli = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help="The command `perdure`."
)
