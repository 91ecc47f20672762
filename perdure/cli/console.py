"""`perdure console`: the web pages for operators; `perdure console token`: lets somebody in once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from perdure._operations.durations import duration, shown
from perdure._worker.worker import stop_at_once, stop_requested
from perdure.app import App
from perdure.cli.app_option import AppOption, loaded
from perdure.cli.cli import RUN, cli
from perdure.cli.printing import print_line, print_note
from perdure.errors import InvalidSetting
from perdure.logs import set_up
from perdure.settings import Settings, settings

if TYPE_CHECKING:
    from perdure.console import Console, Grant, Identity

SECRET = "PERDURE_CONSOLE_OIDC_SECRET"
_LOCAL = ("127.0.0.1", "localhost", "::1")
_PROXY, _OIDC = "Behind a proxy that signs people in", "OpenID Connect"

group: typer.Typer = typer.Typer(
    invoke_without_command=True,
    help="Serve the web console, until SIGTERM. People sign in with a token of `perdure console token`, at an identity "
    "provider, or at a proxy.",
    epilog="Example: perdure console --app shop.app:app",
)
cli.add_typer(group, name="console", rich_help_panel=RUN)


@group.callback()
def console(
    context: typer.Context,
    app: AppOption = None,
    host: Annotated[str, typer.Option(help="where it listens")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 = any that is free", min=0, max=65535)] = 8484,
    public_url: Annotated[
        str | None, typer.Option(help="where browsers find it, if a proxy is before it: https://console.example.org")
    ] = None,
    grant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=ROLE",
            help="for --oidc-issuer and --proxy-header: what a person, group:NAME or * may do: look, payloads, settle, "
            "bulk, administer; :LIFECYCLE and @TENANT limit it; may be repeated",
        ),
    ] = None,
    oidc_issuer: Annotated[str | None, typer.Option(help="URL of the identity provider", rich_help_panel=_OIDC)] = None,
    oidc_client_id: Annotated[
        str | None,
        typer.Option(help=f"of the console, as registered there; its secret is in {SECRET}", rich_help_panel=_OIDC),
    ] = None,
    oidc_name: Annotated[
        str, typer.Option(help="claim that is the name", rich_help_panel=_OIDC)
    ] = "preferred_username",
    oidc_groups: Annotated[str, typer.Option(help="claim that has the groups", rich_help_panel=_OIDC)] = "groups",
    oidc_scope: Annotated[str, typer.Option(help="so that the ID token has them", rich_help_panel=_OIDC)] = (
        "openid profile"
    ),
    proxy_header: Annotated[
        str | None, typer.Option(help="header with the name, as X-Forwarded-User", rich_help_panel=_PROXY)
    ] = None,
    proxy_groups: Annotated[
        str | None, typer.Option(help="header with the groups, by comma", rich_help_panel=_PROXY)
    ] = None,
    proxy_from: Annotated[
        list[str] | None,
        typer.Option(help="address or network of the proxy; may be repeated", rich_help_panel=_PROXY),
    ] = None,
    insecure_local: Annotated[
        bool,
        typer.Option(
            "--insecure-local", help="let in everybody on this machine, with every role: for development alone"
        ),
    ] = False,
) -> None:
    """See `group`."""
    if context.invoked_subcommand is not None:
        return
    if insecure_local and host not in _LOCAL:
        raise typer.BadParameter(f"--insecure-local with --host {host} would let in everybody: leave one of them out")
    stop_at_once()
    config = settings()
    set_up(config.log, config.log_level)
    declared, grants = loaded(app), grant or []
    from perdure.console import InsecureLocal, Proxy, Tokens

    way: Identity
    if insecure_local:
        way = InsecureLocal()
        print_note("perdure: --insecure-local: everybody on this machine may do everything, and nobody is asked who")
    elif proxy_header is not None:
        way = Proxy(proxy_header, proxy_from or [], granting(grants), proxy_groups)
    elif oidc_issuer is not None:
        claims = {"name_claim": oidc_name, "groups_claim": oidc_groups, "scope": oidc_scope}
        way = _open_id(config, oidc_issuer, oidc_client_id, granting(grants), public_url, claims)
    else:
        way = Tokens()
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


def granting(given: Sequence[str]) -> dict[str, tuple[Grant, ...]]:
    """What `--grant` says.

    Raises:
        InvalidSetting: one is none, or there is none.
    """
    from perdure.console import Grant

    found: dict[str, tuple[Grant, ...]] = {}
    for each in given:
        name, equals, role = each.partition("=")
        if not name or not equals:
            raise InvalidSetting(
                f"--grant {each!r} must be NAME=ROLE, as ann@example.org=settle or group:on-call=settle:order"
            )
        found[name] = (*found.get(name, ()), Grant.of(role))
    if not found:
        raise InvalidSetting("nobody would have a role: give --grant NAME=ROLE, as --grant '*=look'")
    return found


def _open_id(
    config: Settings,
    issuer: str,
    client_id: str | None,
    grants: dict[str, tuple[Grant, ...]],
    public_url: str | None,
    claims: dict[str, str],
) -> Identity:
    from perdure.console.folder import Folder
    from perdure.console.openid import OpenId
    from perdure.console.sessions import Sessions

    secret = os.environ.get(SECRET)
    if client_id is None or not secret:
        raise InvalidSetting(f"--oidc-issuer needs --oidc-client-id, and {SECRET} in the environment")
    folder = Folder.opened(config.console_folder)
    sessions = Sessions(folder, folder.secret())
    return OpenId(issuer, client_id, secret, grants, sessions, public_url, **claims)


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
