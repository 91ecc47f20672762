"""`perdure job-type callbacks`: the process that pages call back."""

from __future__ import annotations

from typing import Annotated

import typer

from workers.receiving import receive_at
from workers.web_jobs.callbacks import receive
from workers.web_jobs.job_types.group import commands


@commands.command(epilog="Example: perdure job-type callbacks --listen 127.0.0.1:8086")
def callbacks(
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="where; behind your proxy, which speaks TLS")],
) -> None:
    """Receive the callbacks of pages, `POST /<token>`, until SIGTERM.

    The workers pass its address, PERDURE_WEB_CALLBACK_URL, to the pages.
    """
    receive_at(listen, receive, "127.0.0.1:8086")
