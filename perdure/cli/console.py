"""`perdure console`: the web pages for operators; `perdure console token`: lets somebody in once."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Annotated

import typer

from perdure._operations.durations import duration, shown
from perdure._worker.worker import stop_at_once, stop_requested
from perdure.app import App
from perdure.cli.app_option import AppOption, loaded
from perdure.cli.cli import RUN, cli
from perdure.cli.host_option import HostOption
from perdure.cli.options import options_of
from perdure.cli.printing import print_line, print_note
from perdure.cli.signing_in import SignIn
from perdure.logs import set_up
from perdure.settings import Settings, settings

if TYPE_CHECKING:
    from perdure.console import Console, Identity

group: typer.Typer = typer.Typer(
    invoke_without_command=True,
    help="Serve the web console, until SIGTERM. People sign in with a token of `perdure console token`, at an identity "
    "provider, or at a proxy.",
    epilog="Example: perdure console --app shop.app:app",
)
cli.add_typer(group, name="console", rich_help_panel=RUN)


@group.callback()
@options_of(SignIn)
def console(
    sign_in: SignIn,
    context: typer.Context,
    app: AppOption = None,
    host: HostOption = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 = any that is free", min=0, max=65535)] = 8484,
    public_url: Annotated[
        str | None, typer.Option(help="where browsers find it, if a proxy is before it: https://console.example.org")
    ] = None,
) -> None:
    """See `group`."""
    if context.invoked_subcommand is not None:
        return
    sign_in.check(host)
    if public_url is not None and not re.fullmatch(r"https?://[^/?#]+/?", public_url):  # links begin with /
        raise typer.BadParameter(
            f"{public_url!r} is no URL without a path: write https://HOST", param_hint="--public-url"
        )
    stop_at_once()
    config = settings()
    set_up(config.log, config.log_level)
    declared = loaded(app)
    way = sign_in.identity(config, public_url)
    asyncio.run(_serve(_made(way, declared, config, public_url), config, host, port))


@group.command("token", epilog="Example: perdure console token ann --as settle:order --as look")
def make_token(
    name: Annotated[str, typer.Argument(help="of the person, for the record")],
    roles: Annotated[
        list[str],
        typer.Option(
            "--as",
            metavar="ROLE",
            help="look, payloads, settle, bulk, administer; :LIFECYCLE and @TENANT limit it; may be repeated",
        ),
    ],
    valid: Annotated[str, typer.Option("--for", metavar="DURATION", help="how long it can be used: 90s, 10m, 2h")] = (
        "10m"
    ),
) -> None:
    """Make a token with which one person signs in, once. It is printed, and kept nowhere."""
    from perdure.console import Grant, Person
    from perdure.console.folder import Folder

    grants = tuple(Grant.of(each) for each in roles)
    lasting = duration(valid).total_seconds()
    token = Folder.opened(settings().console_folder).add_token(Person(name, grants), lasting)
    print_line(token)
    print_note(f"perdure: for {name} as {', '.join(map(str, grants))}: use it once, within {shown(lasting)}")


def _made(way: Identity, app: App | None, config: Settings, public_url: str | None) -> Console:
    from perdure.console import console

    return console(way, app=app, config=config, public_url=public_url)


async def _serve(made: Console, config: Settings, host: str, port: int) -> None:
    from perdure.console.health import healthy
    from perdure.console.serving import listen, serve

    listening, stop = listen(host, port), stop_requested()
    async with healthy(config, made.sources) as health:
        health.runs()
        await serve(made, listening, stop)
