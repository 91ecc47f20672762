"""`--host` of a command that serves."""

from __future__ import annotations

from typing import Annotated

import typer


def _without_brackets(host: str) -> str:
    """An IPv6 address may have the brackets that it has in `PERDURE_HEALTH`, where a port follows."""
    return host.strip("[]")


HostOption = Annotated[str, typer.Option("--host", help="where it listens", callback=_without_brackets)]
"""`host: HostOption = "127.0.0.1"` in the signature of a command."""
