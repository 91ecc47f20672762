"""The options `--by` and `--note`: who acts and why, for the record."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer
from pydantic import ValidationError

from perdure._wire.requests import OperatorRequest
from perdure.cli.printing import refuse
from perdure.contracts.effects import first_problem

By = Annotated[
    str, typer.Option(envvar="PERDURE_BY", help="who does this, for the record; default: the user of this machine")
]
Note = Annotated[str, typer.Option(help="why, for the record: no personal data")]


def request(by: str, note: str = "") -> OperatorRequest:
    """Both of them; leaves with 2 where they can't be used."""
    if not (by := by or _os_user()):
        refuse("this system has no name for its user: say who does this with --by or PERDURE_BY", 2)
    try:
        return OperatorRequest(by=by, note=note)
    except ValidationError as error:
        refuse(f"--by or --note can't be used: {first_problem(error)}", 2)


def _os_user() -> str:
    """The name of the user of this process; empty if the system has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
