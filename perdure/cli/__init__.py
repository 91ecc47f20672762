"""The command `perdure`: one module for each group of verbs, registered when it is imported here."""

from __future__ import annotations

import errno
import logging
import os
import re
import sys
from typing import Any

import typer
from pydantic import ValidationError
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
from perdure.cli.printing import complain, explain
from perdure.errors import PerdureError
from perdure.logs import log_event, set_up
from perdure.settings import misspelt

log: logging.Logger = logging.getLogger("perdure.settings")
_SURROGATES = re.compile("[\ud800-\udfff]")
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

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
    """Entry point. An error is one line; exit status 0 = done, 1 = the command could not do it, 2 = wrong usage."""
    set_up("json" if os.environ.get("PERDURE_LOG") == "json" else "notes", "warning")
    for name, meant in misspelt(os.environ).items():
        log_event(log, f"{name} has no effect: did you mean {meant}?", level=logging.WARNING)
    if (unreadable := _no_utf8()) is not None:
        complain(f"{unreadable} is no UTF-8: write it in UTF-8")
        leave(2)
    try:
        leave(cli(prog_name="perdure", standalone_mode=False) or 0)
    except PerdureError as error:
        leave(explain(error))
    except typer.Abort:
        complain("nothing was done")
        leave(1)
    except KeyboardInterrupt:
        leave(130)
    except TyperException as error:
        leave(_usage(error))
    except OSError as error:  # all others are explained where they arise
        if error.errno not in _UNWRITABLE:
            raise
        sys.stdout = None
        complain(f"the output can't be written: {error.strerror}")
        leave(1)


def _no_utf8() -> str | None:
    """The first argument, or setting, with bytes that are no UTF-8, for each of which Python has a lone surrogate.
    Neither PostgreSQL nor Temporal takes such a text. The value of a setting may be a secret."""
    arguments = {f"the argument {os.fsencode(each)!r}": each for each in sys.argv[1:]}
    settings = {f"the value of {name}": each for name, each in os.environ.items() if name.startswith("PERDURE_")}
    return next((name for name, text in {**arguments, **settings}.items() if _SURROGATES.search(text)), None)


def _usage(error: Any) -> int:
    """Typer's own way is a box of several lines."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        complain(_with_value(error) + (f": see {context.command_path} --help" if context else ""))
    return int(error.exit_code)


def _with_value(error: Any) -> str:
    """The message in one line, with the value that was given: Typer leaves that out of what Pydantic refuses."""
    text = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
    if isinstance(cause := error.__cause__, ValidationError):
        found = cause.errors(include_url=False)[0]
        if repr(found["input"]) not in text:
            return text.replace(f": {found['msg']}", f": {found['input']!r}: {found['msg']}")
    return text
