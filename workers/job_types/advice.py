"""What is worth a word about a job type, though it can be used: one line each on standard error."""

from __future__ import annotations

import typer

from activities.web.job_type import JobType
from activities.web.origins import forbidden
from perdure.command.printing import plain

SECRET_HEADERS = ("authorization", "cookie", "x-api-key", "api-key", "x-auth-token")


def advise(type_: JobType) -> None:
    """Say it."""
    for line in _advice(type_):
        typer.echo(f"perdure: {type_.name}: {plain(line)}", err=True)


def _advice(type_: JobType) -> list[str]:
    found = []
    if why := forbidden(type_.url):
        found.append(f"with the settings of this environment its jobs would be held: {why}")
    for name in type_.headers:
        if name.lower() in SECRET_HEADERS:
            found.append(f"the header {name} stands in the table, and in exports, as it is; signed_with names a secret")
    if type_.doubt == "escalate" and type_.method == "GET":
        found.append("a GET that is in doubt waits for a person: --doubt repeat, where it is harmless twice")
    return found
