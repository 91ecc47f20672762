"""`perdure replay`: whether today's code can follow the histories of runs that are open."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from perdure._worker.replaying import Replayed, from_files, from_server, replay, saved
from perdure._worker.worker import load_app
from perdure.cli.cli import RUN, cli
from perdure.cli.printing import complain, print_line, print_progress
from perdure.settings import settings


@cli.command("replay", epilog="Example: perdure replay shop.app:app --from tests/histories", rich_help_panel=RUN)
def replay_histories(
    app: Annotated[str, typer.Argument(help="the App whose code is tried, as package.module:name or package.module")],
    files: Annotated[
        list[Path] | None, typer.Option("--from", help="a file, or a folder of files; may be given often", exists=True)
    ] = None,
    query: Annotated[
        str | None, typer.Option(help="list filter of runs; default: all open lifecycles of the task queue")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="at most so many runs", min=1)] = None,
    save: Annotated[Path | None, typer.Option(help="folder to write the histories to", file_okay=False)] = None,
    namespace: Annotated[str | None, typer.Option(help="instead of TEMPORAL_NAMESPACE")] = None,
) -> None:
    """Replay histories with today's code: from files, else from the server that TEMPORAL_* names.

    One line for each run that the code can't follow. Exit status 1 if there is one, nothing to replay, or without
    --from and --query an open run of a lifecycle that the App does not have.
    """
    if files and (query or namespace):
        raise typer.BadParameter("--from reads files, --query and --namespace read from a server: give one of both")
    if namespace:
        os.environ["TEMPORAL_NAMESPACE"] = namespace
    config, loaded = settings(), load_app(app)
    histories = from_files(files) if files else from_server(loaded, config, query)
    if save:
        histories = saved(histories, save)
    seen = asyncio.run(
        replay(loaded, config, histories, limit=limit, differs=lambda found: print_line(str(found)), done=_progress)
    )
    _progress(seen, last=True)
    print_line(
        f"{seen.runs} runs replayed, {seen.differences} can't be followed, {seen.foreign.total()} of other workflows"
    )
    lacking = {} if files or query else seen.foreign
    for lifecycle, count in sorted(lacking.items()):
        complain(f"the App has no lifecycle {lifecycle!r}, of which {count} are open: no worker could continue them")
    if seen.differences or lacking or not seen.runs:
        raise typer.Exit(1)


def _progress(seen: Replayed, *, last: bool = False) -> None:
    if sys.stderr.isatty() and (last or seen.runs % 10 == 0):
        print_progress(f"{seen.runs} runs, {seen.differences} can't be followed", end=last)
