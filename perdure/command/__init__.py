"""The command `perdure`: one module for each group of verbs, registered when it is imported here."""

from __future__ import annotations

import typer

from perdure.command import adopt, adopt_database, grant, rejected, replay, running, schema, status
from perdure.command.cli import cli
from perdure.errors import PerdureError
from perdure.fleet.worker import leave

__all__ = ["adopt", "adopt_database", "cli", "grant", "main", "rejected", "replay", "running", "schema", "status"]


def main() -> None:
    """Entry point: errors are one line; exit status 0 = done, 1 = it could not be done, 2 = wrong usage."""
    try:
        cli()
    except SystemExit as end:
        leave(end.code if isinstance(end.code, int) else 1)
    except PerdureError as error:
        typer.echo(f"perdure: {error}", err=True)
        leave(1)
    except KeyboardInterrupt:
        leave(130)
