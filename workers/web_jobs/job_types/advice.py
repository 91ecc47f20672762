"""Advice about a usable job type: one line for each point, on standard error."""

from __future__ import annotations

from activities.web_jobs.job_type import JobType, seems_secret
from activities.web_jobs.origins import forbidden, same_origin
from perdure.cli.printing import complain

HEADER_FIELDS = ("headers", "status_headers")


def advise(type_: JobType) -> None:
    """Print the advice."""
    for line in _advice(type_):
        complain(f"{type_.name}: {line}")


def _advice(type_: JobType) -> list[str]:
    found = []
    if why := forbidden(type_.url):
        found.append(f"with the settings of this environment its jobs would be held: {why}")
    for name in (*type_.headers, *type_.status_headers):
        if seems_secret(name):
            found.append(f"the header {name} stands in the table, and in exports, as it is; signed_with names a secret")
    if _asks_elsewhere(type_) and type_.signed_with and not type_.status_signed_with:
        found.append("its status URL has another origin and is asked without a signature: --status-signed-with")
    if type_.doubt == "escalate" and type_.method == "GET":
        found.append("a GET that is in doubt waits for a person: --doubt repeat, where it is harmless twice")
    return found


def _asks_elsewhere(type_: JobType) -> bool:
    return type_.status_url is not None and not same_origin(type_.status_url, type_.url)
