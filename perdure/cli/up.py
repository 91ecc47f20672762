"""`perdure up`: Temporal and the workers on this machine, until SIGTERM; and what runs."""

from __future__ import annotations

import asyncio
import getpass
import importlib.util
import os
import shlex
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from perdure._machine.folder import Folder, default_folder
from perdure._machine.machine import Machine
from perdure._machine.measuring import cpu_seconds, resident_bytes
from perdure._machine.systemd import unit
from perdure._machine.tree import Tree, patience_of_all
from perdure._operations.durations import shown
from perdure._store.connecting import DATABASE_ERRORS
from perdure._worker.worker import leave, load_app, stop_at_once, stop_requested
from perdure.cli.cli import RUN, cli
from perdure.cli.printing import complain, print_json, print_line, print_table, refuse
from perdure.errors import PerdureError
from perdure.logs import set_up
from perdure.settings import Settings, settings

_STATUS = "status"
_CONSOLE_NEEDS = ("starlette", "uvicorn", "jinja2")


@cli.command(epilog="Example: perdure up shop.app:app --workers 2", rich_help_panel=RUN)
def up(
    app: Annotated[
        str, typer.Argument(help="the App to run, as package.module:name or package.module; `status` shows what runs")
    ],
    workers: Annotated[
        int,
        typer.Option(min=0, max=256, help="how many worker processes, each of which uses one core; 0 = Temporal alone"),
    ] = 1,
    state: Annotated[
        Path | None,
        typer.Option(help="the folder of this installation: /var/lib/perdure for root, ~/.local/state/perdure else"),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="of Temporal; 7233 if it is free at the first start")
    ] = None,
    retention: Annotated[
        int, typer.Option(min=1, help="days for which Temporal keeps the histories of ended workflows, set once")
    ] = 3,
    web_ui: Annotated[
        bool | None, typer.Option("--web-ui/--no-web-ui", help="Temporal's Web UI; default: where it is installed")
    ] = None,
    trial: Annotated[
        bool, typer.Option("--try", help="for an afternoon: Temporal's dev server with a file, not on PostgreSQL")
    ] = False,
    console: Annotated[
        str | None,
        typer.Option(
            metavar="OPTIONS", help="serve the web console, with these options of `perdure console`; may be ''"
        ),
    ] = None,
    print_systemd: Annotated[bool, typer.Option(help="print a systemd unit for this command line, and end")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="with `status`: print one JSON object")] = False,
) -> None:
    """Run everything on one machine until SIGTERM: Temporal on the PostgreSQL of the app, its Web UI, and workers.

    The first start gets Temporal's programs, makes Temporal's role and two databases beside the one that
    PERDURE_DATABASE_URL names, and the schema `perdure` in that. PERDURE_ADMIN_DATABASE_URL names a role that may make
    them; or PERDURE_TEMPORAL_DATABASE_URL one that you made for Temporal. Processes that end are started again.
    Temporal listens on 127.0.0.1, without authentication.
    """
    folder = Folder(state or default_folder())
    if app == _STATUS:
        _show(folder, as_json=as_json)
        return
    config = settings()
    beside = _console(app, console)
    if print_systemd:
        load_app(app)  # refuse a unit that could not start
        _print_unit(app, config, _options(workers, state, port, web_ui, trial, retention, console), state)
        return
    stop_at_once()
    set_up(config.log, config.log_level)
    load_app(app)  # refuse an app that cannot run once, and not in each process
    machine = Machine(
        app,
        workers,
        folder,
        os.environ.get("TEMPORAL_NAMESPACE", "default"),
        timedelta(days=retention),
        port=port,
        web_ui=web_ui,
        trial=trial,
        beside=beside,
        admin_url=os.environ.get("PERDURE_ADMIN_DATABASE_URL"),
        temporal_url=os.environ.get("PERDURE_TEMPORAL_DATABASE_URL"),
    )
    _run(machine, config)
    leave(0)


def _run(machine: Machine, config: Settings) -> None:
    """Run the machine until a stop signal, as the only process with its folder."""

    async def until_stopped() -> None:
        stop = stop_requested()
        await Tree(machine, config).run(stop)

    try:
        with machine.folder.held():
            asyncio.run(until_stopped())
    except PerdureError:
        raise
    except (RuntimeError, *DATABASE_ERRORS) as error:
        refuse(error, 1)


def _console(app: str, options: str | None) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if options is None:
        return ()
    if missing := [each for each in _CONSOLE_NEEDS if importlib.util.find_spec(each) is None]:
        refuse(f"`perdure up --console` needs {', '.join(missing)}: pip install 'perdure[console]'", 1)
    try:
        words = shlex.split(options)
    except ValueError as error:
        refuse(f"--console {options!r}: {error}: quote these options as for a shell", 2)
    command = (sys.executable, "-m", "perdure.cli", "console", "--app", app, *words)
    return (("console", command),)


def _options(
    workers: int,
    state: Path | None,
    port: int | None,
    web_ui: bool | None,
    trial: bool,
    retention: int,
    console: str | None,
) -> list[str]:
    arguments = ["--workers", str(workers), "--retention", str(retention)]
    arguments += ["--state", str(state.resolve())] if state else []
    arguments += ["--port", str(port)] if port else []
    arguments += [] if web_ui is None else ["--web-ui" if web_ui else "--no-web-ui"]
    arguments += ["--try"] if trial else []
    return arguments if console is None else [*arguments, "--console", console]


def _print_unit(app: str, config: Settings, options: list[str], state: Path | None) -> None:
    text = unit(
        app,
        options,
        folder=Path.cwd(),
        state=state and state.resolve(),
        user=getpass.getuser(),
        grace=config.graceful_shutdown_timeout,
        stop=patience_of_all(config),
    )
    print_line(text.removesuffix("\n"))


def _show(folder: Folder, *, as_json: bool) -> None:
    try:
        held = folder.is_held()  # before the status, which is then of the one that runs
        status = folder.status()
    except PermissionError:
        refuse(f"{folder.path} is open to its owner alone: run this as the user of `perdure up`", 1)
    if status is None or not held:
        refuse(f"no `perdure up` runs with {folder.path}: name its folder by --state", 1)
    for each in status["processes"]:
        each["memory"] = resident_bytes(each["pid"])
        each["cpu"] = cpu_seconds(each["pid"])
    well = status["ready"] and all(each["state"] == "running" for each in status["processes"])
    if as_json:
        print_json({**status, "well": well})
    else:
        _print(status)
    if not well:
        complain("not everything runs" if status["processes"] else "it starts, or waits for PostgreSQL")
        raise typer.Exit(1)


def _print(status: dict[str, Any]) -> None:
    print_line(
        f"{status['app']}  Temporal {status['version']} at {status['temporal']}, namespace {status['namespace']}, "
        f"{'ready' if status['ready'] else 'not ready'}"
    )
    rows = [
        (
            each["name"],
            each["state"],
            shown(time.time() - each["since"]),
            each["pid"],
            each["restarts"],
            each["last_status"],
            f"{each['memory'] / 1e6:.0f} MB" if each["memory"] else "",
            f"{each['cpu']:.0f} s" if each["cpu"] is not None else "",
        )
        for each in status["processes"]
    ]
    print_table(("process", "state", "for", "pid", "restarts", "last exit", "memory", "cpu"), rows)
