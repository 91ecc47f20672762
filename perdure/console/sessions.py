"""Sessions of people who signed in here: a signed cookie, which ends after a while, when they sign out, and when they
are revoked."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import Any

from itsdangerous import BadData, URLSafeSerializer
from starlette.requests import Request
from starlette.responses import Response

from perdure.console.folder import Folder
from perdure.console.roles import Grant, Person
from perdure.console.security import cookie
from perdure.errors import InvalidSetting

COOKIE = "perdure-console-session"
_RENEWED = 60.0
"""Seconds after which a cookie that is used is signed again."""


@dataclass(frozen=True, slots=True)
class Sessions:
    """Makes, reads and ends sessions.

    Attributes:
        idle: seconds without a request after which one ends.
        longest: seconds after which it ends in any case.
    """

    folder: Folder
    secret: bytes
    idle: float = 3600.0
    longest: float = 12 * 3600.0

    def begin(self, response: Response, person: Person, *, path: str, secure: bool, began: float | None = None) -> None:
        """Let the browser have a new session.

        Args:
            began: the time before it was known who it is; a revocation since then counts. Default: now.
        """
        now = time.time() if began is None else began
        grants = [str(each) for each in person.grants]
        session = {"id": secrets.token_urlsafe(16), "name": person.name, "grants": grants, "began": now, "seen": now}
        self.folder.begin(str(session["id"]), person, now, now + self.longest)
        self._set(response, session, path, secure)

    def person(self, request: Request) -> Person | None:
        """Whose session it is; None = there is none, or it has ended."""
        session = self._read(request)
        return None if session is None else Person(session["name"], tuple(map(Grant.of, session["grants"])))

    def renew(self, request: Request, response: Response, *, path: str, secure: bool) -> None:
        """Somebody used it."""
        session = self._read(request)
        if session is not None and time.time() - session["seen"] > _RENEWED:
            self._set(response, {**session, "seen": time.time()}, path, secure)

    def end(self, request: Request, response: Response, *, path: str) -> None:
        """Sign out: a copy of the cookie is worth nothing from now on."""
        session = self._read(request)
        if session is not None:
            self.folder.end(session["id"])
        response.delete_cookie(COOKIE, path=path)

    def _read(self, request: Request) -> dict[str, Any] | None:
        try:
            session: dict[str, Any] = self._signer.loads(cookie(request, COOKIE) or "")
            now = time.time()
            over = now - session["seen"] > self.idle or now - session["began"] > self.longest
            _ = [Grant.of(each) for each in session["grants"]]
            lasts = not over and self.folder.lasts(session["id"], session["name"], session["began"])
        except (BadData, KeyError, TypeError, InvalidSetting):
            return None
        return session if lasts else None

    def _set(self, response: Response, session: dict[str, Any], path: str, secure: bool) -> None:
        value = str(self._signer.dumps(session))
        response.set_cookie(COOKIE, value, path=path, secure=secure, httponly=True, samesite="lax")

    @property
    def _signer(self) -> URLSafeSerializer:
        return URLSafeSerializer(self.secret, salt="perdure.console.session")
