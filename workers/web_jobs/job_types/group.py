"""`perdure job-type`: the group of commands that web jobs add to `perdure`."""

from __future__ import annotations

import typer

commands = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Job types: which page does which jobs. A change counts for every worker at once, without a restart.",
)
