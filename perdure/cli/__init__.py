"""The command `perdure`: one module for each group of verbs, registered when it is imported here."""

from __future__ import annotations

from typing import Any

import typer
from typer.exceptions import TyperException

from perdure._worker.worker import leave
from perdure.cli import (
    acts,
    archive,
    claim_database,
    console,
    console_access,
    dev,
    diagram,
    doctor,
    doubts,
    encryption,
    forget,
    grant,
    help,
    import_rows,
    limit,
    list_open,
    reconcile,
    recover,
    rejected,
    replay,
    running,
    schema,
    show,
    status,
    top,
    up,
)
from perdure.cli.cli import cli
from perdure.cli.printing import complain, complain_at_length
from perdure.errors import PerdureError

__all__ = [
    "acts",
    "archive",
    "claim_database",
    "cli",
    "console",
    "console_access",
    "dev",
    "diagram",
    "doctor",
    "doubts",
    "encryption",
    "forget",
    "grant",
    "help",
    "import_rows",
    "limit",
    "list_open",
    "main",
    "reconcile",
    "recover",
    "rejected",
    "replay",
    "running",
    "schema",
    "show",
    "status",
    "top",
    "up",
]


def main() -> None:
    """Entry point: errors are one line; exit status 0 = done, 1 = it could not be done, 2 = wrong usage."""
    try:
        leave(cli(prog_name="perdure", standalone_mode=False) or 0)
    except PerdureError as error:
        first, *more = str(error).split("\n")
        complain_at_length("\n".join((f"{first} [{error.code}]", *more)))
        leave(1)
    except typer.Abort:
        complain("nothing was done")
        leave(1)
    except KeyboardInterrupt:
        leave(130)
    except TyperException as error:
        leave(_usage(error))


def _usage(error: Any) -> int:
    """Typer's own way is a box of several lines."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        what = " ".join(error.format_message().split()).rstrip(".")
        complain(what + (f": see {context.command_path} --help" if context else ""))
    return int(error.exit_code)
