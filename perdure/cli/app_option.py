"""`--app`, or PERDURE_APP: the App whose declarations a command requires, or with which it shows more."""

from __future__ import annotations

from typing import Annotated

import typer

from perdure._worker.worker import load_app
from perdure.app import App

AppOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        envvar="PERDURE_APP",
        metavar="MODULE[:NAME]",
        help="the App, as package.module:name or package.module",
        show_default=False,
    ),
]
"""`app: AppOption = None` in the signature of a command."""


def loaded(app: str | None) -> App | None:
    """The app, if one is named.

    Raises:
        DeclarationError: there is no such App.
    """
    return None if app is None else load_app(app)


def required(app: str | None) -> App:
    """The app, for a command that requires one.

    Raises:
        BadParameter: none is named.
        DeclarationError: there is no such App.
    """
    if app is None:
        raise typer.BadParameter("give --app package.module:name, or set PERDURE_APP", param_hint="--app")
    return load_app(app)
