"""`perdure console people` and `perdure console revoke`: who is let in now, and how that ends at once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from perdure.cli.console import group
from perdure.cli.printing import moment, print_line, print_table, refuse
from perdure.settings import settings


@group.command("people", epilog="Example: perdure console people")
def people() -> None:
    """List who is signed in, and who holds a token that nobody has used yet. People whom a proxy or your own
    application signs in are not listed."""
    from perdure.console.folder import Folder

    found = Folder.opened(settings().console_folder).access()
    rows = [
        (
            each.name,
            ", ".join(each.grants),
            "token, not used" if each.began is None else f"signed in {_moment(each.began)}",
            _moment(each.until),
        )
        for each in found
    ]
    print_table(("name", "roles", "what", "until"), rows)


@group.command("revoke", epilog="Example: perdure console revoke ann")
def revoke(name: Annotated[str, typer.Argument(help="of the person, as the console shows it")]) -> None:
    """End all sessions of a person at once, use up the person's tokens, and stop the person's acts on many. Whoever an
    identity provider still lets in can sign in again.

    Exit status 1 if nobody of that name was signed in, or held a token: then only acts on many are stopped.
    """
    from perdure.console.folder import Folder

    ended = Folder.opened(settings().console_folder).revoke(name)
    if not ended:
        refuse(f"{name!r} was not signed in, and held no token: `perdure console people` lists who is", 1)
    sessions = sum(each.began is not None for each in ended)
    print_line(f"sessions ended: {sessions}, tokens used up: {len(ended) - sessions}")


def _moment(at: float) -> str:
    return moment(datetime.fromtimestamp(at, UTC))
