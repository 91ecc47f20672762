"""What every answer carries, and what every form must bring: headers, and tokens against forged requests."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlsplit

from itsdangerous import BadData, SignatureExpired, URLSafeTimedSerializer
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perdure.console.folder import FORM_AGE, Folder
from perdure.console.roles import Person

IN_PAGE = "; ".join(
    (
        *("default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'"),
        *("form-action 'self'", "base-uri 'none'"),
    )
)
"""No code and no style in a page runs: a hole in the escaping shows text, and executes nothing. The page itself has it,
too: a host application may put a policy of its own into the header, and the browser keeps to both."""
POLICY = f"{IN_PAGE}; frame-ancestors 'none'"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # `no-referrer` would turn the Origin of our own forms into null.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
VISITOR = "perdure-console-visitor"
"""The cookie that a browser has from its first page on; each form is for one browser and one person."""
TOO_OLD = "its token is too old"
"""Why a form is refused that can be sent again with a new token."""
_NOTICE, _NOTICED = "perdure.console.notice", 300


class Headed:
    """Puts the headers on every answer, errors included."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, headed if scope["type"] == "http" else send)


@dataclass(slots=True)
class Forms:
    """Tokens of forms: each is for one browser and one person, and counts once in all processes that share the folder.

    Attributes:
        public_host: what browsers call the console, if a proxy is before it.
    """

    folder: Folder
    public_host: str | None = None
    secret: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.secret = self.folder.secret()

    @property
    def _signer(self) -> URLSafeTimedSerializer:
        return URLSafeTimedSerializer(self.secret, salt="perdure.console.form")

    def token(self, visitor: str, person: Person | None) -> str:
        """A new one."""
        return str(self._signer.dumps([visitor, person.name if person else None, secrets.token_urlsafe(12)]))

    def refusal(
        self, request: Request, given: str, visitor: str | None, person: Person | None, *, once: bool = True
    ) -> str | None:
        """Why the form can't be accepted; None = it can, and its token is used up.

        Args:
            once: False = the token still counts afterwards.

        Raises:
            OSError: that it was sent can't be put on record.
        """
        if foreign(request.headers, self.public_host):
            return "it was sent from a page of another site"
        try:
            (of, name, nonce), made = self._signer.loads(given, max_age=FORM_AGE, return_timestamp=True)
        except SignatureExpired:
            return TOO_OLD
        except (BadData, ValueError):
            return "its token is missing or forged"
        if (
            visitor is None
            or not visitor.isascii()
            or not secrets.compare_digest(of, visitor)
            or name != (person.name if person else None)
        ):
            return "it was made for another browser or another person"
        assert isinstance(made, datetime)
        if once and not self.folder.use_form(nonce, made.timestamp()):
            return "it was sent before"
        return None

    def is_own(self, request: Request, given: str, visitor: str | None, person: Person | None) -> bool:
        """Whether a form that can't be accepted was written here: on a page of this site, however old, in this browser,
        and by this person; where nobody is signed in any more, by whoever was before."""
        if visitor is None or not visitor.isascii() or foreign(request.headers, self.public_host):
            return False
        try:
            of, name, _ = self._signer.loads(given)
        except (BadData, ValueError):
            return False
        return secrets.compare_digest(of, visitor) and (person is None or name == person.name)

    def notice(self, text: str, person: Person) -> str:
        """A text that the next page shows to a person; nobody else can make an address that shows one."""
        return str(URLSafeTimedSerializer(self.secret, salt=_NOTICE).dumps([person.name, text]))

    def noticed(self, given: str, person: Person) -> str | None:
        """The text, for some minutes."""
        try:
            name, text = URLSafeTimedSerializer(self.secret, salt=_NOTICE).loads(given, max_age=_NOTICED)
        except (BadData, ValueError):
            return None
        return str(text) if name == person.name else None


def foreign(headers: Headers, public_host: str | None) -> bool:
    """Whether a request comes from another site, by the browser's headers."""
    fetched_from = headers.get("sec-fetch-site")
    if fetched_from is not None and fetched_from not in ("same-origin", "none"):
        return True
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc not in (headers.get("host"), public_host)


def reads_from_elsewhere(headers: Headers, public_host: str | None) -> bool:
    """Whether another site's page tries to read an answer or to show it inside itself. A link leads here from anywhere.

    A host application's CORS headers may otherwise let it.
    """
    by_link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return foreign(headers, public_host) and not by_link


def cookie(request: Request, name: str) -> str | None:
    """The first cookie of that name. A browser sends the one of the longest path first (RFC 6265, 5.4): the console's
    own goes before one that a host application has set for all paths."""
    for each in "; ".join(request.headers.getlist("cookie")).split(";"):
        given, _, value = each.strip().partition("=")
        if given == name:
            return value
    return None


def way_back(given: str) -> str:
    """Where somebody goes on who has signed in: a path within the console, and never another site.

    >>> way_back("/list?state=paid"), way_back("//another.example"), way_back("https://another.example")
    ('/list?state=paid', '/', '/')
    """
    within = given.startswith("/") and not given.startswith(("//", "/\\")) and given.isprintable()
    return given if within else "/"


def new_visitor() -> str:
    """The value of a new cookie."""
    return secrets.token_urlsafe(16)


def is_secure(request: Request, public_url: str | None) -> bool:
    """Whether the browser came by HTTPS, also where a proxy ended it."""
    return (public_url or request.url.scheme).startswith("https")
