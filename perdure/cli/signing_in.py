"""How people sign in to `perdure console`, as its options say it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.printing import print_note
from perdure.errors import InvalidSetting
from perdure.settings import Settings

if TYPE_CHECKING:
    from perdure.console import Grant, Identity

SECRET = "PERDURE_CONSOLE_OIDC_SECRET"
_LOCAL = ("127.0.0.1", "localhost", "::1")
_PROXY, _OIDC = "Behind a proxy that signs people in", "OpenID Connect"


@dataclass(frozen=True, kw_only=True)
class SignIn:
    """The options; without any, people sign in with one-time tokens."""

    grant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=ROLE",
            help="for --oidc-issuer and --proxy-header: what a person, group:NAME or * may do: look, payloads, settle, "
            "bulk, administer; :LIFECYCLE and @TENANT limit it; may be repeated",
        ),
    ] = None
    oidc_issuer: Annotated[str | None, typer.Option(help="URL of the identity provider", rich_help_panel=_OIDC)] = None
    oidc_client_id: Annotated[
        str | None,
        typer.Option(help=f"of the console, as registered there; its secret is in {SECRET}", rich_help_panel=_OIDC),
    ] = None
    oidc_name: Annotated[str, typer.Option(help="claim that is the name", rich_help_panel=_OIDC)] = "preferred_username"
    oidc_groups: Annotated[str, typer.Option(help="claim that has the groups", rich_help_panel=_OIDC)] = "groups"
    oidc_scope: Annotated[str, typer.Option(help="so that the ID token has them", rich_help_panel=_OIDC)] = (
        "openid profile"
    )
    proxy_header: Annotated[
        str | None, typer.Option(help="header with the name, as X-Forwarded-User", rich_help_panel=_PROXY)
    ] = None
    proxy_groups: Annotated[
        str | None, typer.Option(help="header with the groups, by comma", rich_help_panel=_PROXY)
    ] = None
    proxy_from: Annotated[
        list[str] | None,
        typer.Option(help="address or network of the proxy; may be repeated", rich_help_panel=_PROXY),
    ] = None
    insecure_local: Annotated[
        bool,
        typer.Option(
            "--insecure-local", help="let in everybody on this machine, with every role: for development alone"
        ),
    ] = False

    def check(self, host: str) -> None:
        """Make sure that they fit the host that the console listens on."""
        if self.insecure_local and host not in _LOCAL:
            raise typer.BadParameter(
                f"--insecure-local with --host {host} would let in everybody: leave one of them out"
            )

    def identity(self, config: Settings, public_url: str | None) -> Identity:
        """How the console finds out who somebody is.

        Raises:
            InvalidSetting: an option is missing, or can't be used.
        """
        from perdure.console import InsecureLocal, Proxy, Tokens

        if self.insecure_local:
            print_note(
                "perdure: --insecure-local: everybody on this machine may do everything, and nobody is asked who"
            )
            return InsecureLocal()
        if self.proxy_header is not None:
            return Proxy(self.proxy_header, self.proxy_from or [], _granted(self.grant or []), self.proxy_groups)
        if self.grant and self.oidc_issuer is None:
            raise InvalidSetting(
                f"--grant {self.grant[0]}: it goes with --oidc-issuer or --proxy-header; a token has its roles from "
                "`perdure console token`"
            )
        return self._open_id(config, public_url) if self.oidc_issuer is not None else Tokens()

    def _open_id(self, config: Settings, public_url: str | None) -> Identity:
        from perdure.console.folder import Folder
        from perdure.console.openid import OpenId
        from perdure.console.sessions import Sessions

        secret = os.environ.get(SECRET)
        if self.oidc_issuer is None or self.oidc_client_id is None or not secret:
            raise InvalidSetting(f"--oidc-issuer needs --oidc-client-id, and {SECRET} in the environment")
        grants, folder = _granted(self.grant or []), Folder.opened(config.console_folder)
        claims = {"name_claim": self.oidc_name, "groups_claim": self.oidc_groups, "scope": self.oidc_scope}
        sessions = Sessions(folder, folder.secret())
        return OpenId(self.oidc_issuer, self.oidc_client_id, secret, grants, sessions, public_url, **claims)


def _granted(given: Sequence[str]) -> dict[str, tuple[Grant, ...]]:
    """The roles that `--grant` gives.

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
