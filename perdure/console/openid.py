"""OpenID Connect: people sign in at an identity provider, by the authorization code flow with PKCE (RFC 7636)."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2
from authlib.integrations.base_client.errors import OAuthError
from authlib.integrations.starlette_client import OAuth
from itsdangerous import BadData, URLSafeTimedSerializer
from joserfc.errors import JoseError
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from perdure.console.identity import Identity
from perdure.console.roles import Grant, Person, granted_to, usable
from perdure.console.security import cookie, is_secure, way_back
from perdure.console.sessions import Sessions
from perdure.errors import InvalidSetting

COOKIE = "perdure-console-signing-in"
_AGE = 600
"""Seconds that somebody has to sign in at the provider."""


@dataclass
class OpenId(Identity):
    """Signs people in at one provider.

    Args:
        issuer: its URL; `/.well-known/openid-configuration` below it has the rest.
        client_id, client_secret: of the console, as registered there. Register `<URL of the console>/signed-in`.
        granting: what a name, `group:NAME` or `*` is granted.
        public_url: of the console, where a proxy is before it.
        name_claim, groups_claim: which claims of the ID token are the name and the groups.
        scope: what is asked for, so that they are in it.

    Raises:
        InvalidSetting: the issuer is no URL that can be trusted.
    """

    issuer: str
    client_id: str
    client_secret: str
    granting: Mapping[str, tuple[Grant, ...]]
    sessions: Sessions
    public_url: str | None = None
    name_claim: str = "preferred_username"
    groups_claim: str = "groups"
    scope: str = "openid profile"
    signs_in: bool = field(default=True, init=False)
    link: tuple[str, str] | None = field(
        default=("sign-in/openid", "Sign in with your organisation's account"), init=False
    )
    _oauth: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        here = self.issuer.startswith(("http://127.0.0.1:", "http://localhost:"))
        if not (self.issuer.startswith("https://") or here):
            raise InvalidSetting(f"--oidc-issuer {self.issuer!r} must be an https:// URL")
        self.sessions = replace(self.sessions, secret=self.sessions.secret + self.rules)
        self._oauth = OAuth()
        self._oauth.register(
            "provider",
            client_id=self.client_id,
            client_secret=self.client_secret,
            server_metadata_url=f"{self.issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={"scope": self.scope, "code_challenge_method": "S256", "timeout": 10},
        )

    @property
    def rules(self) -> bytes:
        """See base class."""
        granted = sorted((name, *map(str, grants)) for name, grants in self.granting.items())
        return hashlib.sha256(repr((self.issuer, self.client_id, granted)).encode()).digest()

    async def person(self, request: Request) -> Person | None:
        """See base class."""
        return None

    def routes(self) -> Sequence[BaseRoute]:
        """See base class."""
        return [Route("/sign-in/openid", self._begin), Route("/signed-in", self._end)]

    async def _begin(self, request: Request) -> Response:
        state: dict[str, Any] = {"to": request.query_params.get("to", "")}
        request = _with_session(request, state)
        try:
            response: Response = await self._oauth.provider.authorize_redirect(request, self._back(request))
        except (OAuthError, httpx2.HTTPError, RuntimeError) as error:
            return _failed(f"the identity provider did not answer ({type(error).__name__})", 502)
        response.set_cookie(
            COOKIE,
            str(self._signer.dumps(state)),
            max_age=_AGE,
            path=_path(request),
            secure=is_secure(request, self.public_url),
            httponly=True,
            samesite="lax",
        )
        return response

    async def _end(self, request: Request) -> Response:
        began = time.time()
        try:
            request = _with_session(request, self._signer.loads(cookie(request, COOKIE) or "", max_age=_AGE))
            token = await self._oauth.provider.authorize_access_token(request)
            claims = token.get("userinfo") or {}
        except (OAuthError, JoseError, BadData, httpx2.HTTPError, RuntimeError, ValueError) as error:
            why = f"signing in did not succeed ({type(error).__name__})"
            return _failed(f"{why}: open the console again; another tab may have begun to sign in meanwhile", 400)
        name = str(claims.get(self.name_claim) or claims.get("sub") or "")
        if str(claims.get(f"{self.name_claim}_verified", True)).lower() != "true":  # some providers send text
            return _failed(f"the identity provider has not verified the claim {self.name_claim}", 403)
        grants = granted_to(name, _texts(claims.get(self.groups_claim)), dict(self.granting))
        if not usable(name) or not grants:
            return _failed("this account has no role here: ask who administers the console", 403)
        to = str(request.scope.get("root_path", "")) + way_back(request.session.get("to", ""))
        response, person = RedirectResponse(to, 303), Person(name, grants)
        secure = is_secure(request, self.public_url)
        self.sessions.begin(response, person, path=_path(request), secure=secure, began=began)
        response.delete_cookie(COOKIE, path=_path(request))
        return response

    def _back(self, request: Request) -> str:
        base = self.public_url or f"{request.url.scheme}://{request.url.netloc}{request.scope.get('root_path', '')}"
        return f"{base.rstrip('/')}/signed-in"

    @property
    def _signer(self) -> URLSafeTimedSerializer:
        return URLSafeTimedSerializer(self.sessions.secret, salt="perdure.console.openid")


def _texts(claim: object) -> list[str]:
    """The texts of a claim that is a list, or one text."""
    return [each for each in (claim if isinstance(claim, list) else [claim]) if isinstance(each, str)]


def _with_session(request: Request, session: dict[str, Any]) -> Request:
    """The same request with what is remembered of the sign-in: a host application's session stays as it is."""
    return Request({**request.scope, "session": session}, request.receive)


def _path(request: Request) -> str:
    return str(request.scope.get("root_path", "")) + "/"


def _failed(why: str, status: int) -> Response:
    return Response(f"{why}\n", status, media_type="text/plain")
