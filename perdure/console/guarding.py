"""What stands before each page: how often, who, which role, whose form; and what is answered where it fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from perdure._text.privacy import describe
from perdure.console.limiting import Full
from perdure.console.page import Page, View
from perdure.console.roles import Person
from perdure.console.security import TOO_OLD, VISITOR, cookie, new_visitor, reads_from_elsewhere
from perdure.errors import (
    DatabaseUnavailable,
    Forbidden,
    InvalidEntity,
    InvalidInput,
    InvalidSetting,
    NoSuchEntity,
    NotPermitted,
    NotThisDatabase,
    PerdureError,
    SchemaMismatch,
    TemporalUnavailable,
)
from perdure.logs import log_event

if TYPE_CHECKING:
    from perdure.console.app import Console

log: logging.Logger = logging.getLogger("perdure.console")

TOKEN = "form_token"
"""The field of each form that holds its token."""
LARGEST = 2**22
"""Bytes of a form: a list may have 20,000 keys."""
SLOWEST = 30.0
"""Seconds in which a form must have come."""
_TITLES: list[tuple[type[PerdureError], int, str]] = [
    (Forbidden, 403, "You have no role for this"),
    (NoSuchEntity, 404, "There is no such entity"),
    (InvalidEntity, 400, "That is not the id of an entity"),
    (InvalidSetting, 400, "That can't be shown"),
    (InvalidInput, 400, "That can't be used"),
    (DatabaseUnavailable, 503, "The database does not answer"),
    (TemporalUnavailable, 503, "Temporal does not answer"),
    (SchemaMismatch, 503, "The database has another schema"),
    (NotThisDatabase, 503, "This is another database"),
    (NotPermitted, 503, "The console's database role may not do this"),
    (PerdureError, 409, "It was refused"),
]


class Refused(Exception):
    """The request is answered without its page.

    Attributes:
        kept: the fields of its form, with a token: the answer has them, to be sent again.
    """

    def __init__(
        self,
        status: int,
        title: str,
        why: str,
        headers: dict[str, str] | None = None,
        kept: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(title)
        self.kept: Mapping[str, str] | None = kept
        self.status: int = status
        self.title: str = title
        self.why: str = why
        self.headers: dict[str, str] | None = headers


@dataclass(frozen=True, slots=True)
class _Placed:
    """An answer that gives the place of its person free when it is sent."""

    response: Response
    place: AsyncExitStack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        async with self.place:
            await self.response(scope, receive, send)


Answered = Response | _Placed


def guarded(console: Console, page: Page) -> Callable[[Request], Awaitable[Answered]]:
    """The page, behind everything that is checked before it is made."""

    async def answer(request: Request) -> Answered:
        async with AsyncExitStack() as place:
            response = await _answer(console, page, request, place)
            return _Placed(response, place.pop_all())

    return answer


async def _answer(console: Console, page: Page, request: Request, place: AsyncExitStack) -> Response:
    person: Person | None = None
    try:
        known, visitor = browser(request)
        if any("\0" in each for each in (request.scope["path"], *request.query_params.values())):
            raise Refused(400, "That can't be shown", "The address holds a character that no text may have.")
        if page.method == "GET" and reads_from_elsewhere(request.headers, console.forms.public_host):
            raise Refused(403, "Not from another site", "Only a page of the console itself may read this.")
        person = await who(console, request)
        if person is None:
            return await _sign_in(console, request, page)
        _wait(console.rates.requests.wait(person.name))
        if not page.admits(person):
            _deny(page, person)
        form = await checked_form(console, request, person, once=page.acts) if page.method == "POST" else {}
        if not page.lasts:
            await place.enter_async_context(console.places.one(person.name))
        response = await page.show(View(console, request, person, page, visitor, form, place))
    except Refused as error:
        response = refused(console, request, error.status, error.title, error.why, person, error.kept)
        response.headers.update(error.headers or {})
        return response
    except Full:
        return refused(console, request, 429, "Too many requests", "Many of yours wait already: try again.", person)
    except PerdureError as error:
        return _problem(console, request, error, person)
    except Exception as error:  # its message may quote what it was about
        log.error("a page failed: %s: %s", page.name, describe(error), exc_info=error)
        return refused(console, request, 500, "This page failed", "The log of the console has the place.", person)
    keep(console, request, response, None if known else visitor)
    return response


async def who(console: Console, request: Request) -> Person | None:
    """Who sent a request: by the console's own session, or by its identity.

    Raises:
        Refused: it is not answered at all.
    """
    if why := console.identity.refusal(request):
        raise Refused(403, "Not from here", why)
    person = console.sessions.person(request) if console.identity.signs_in else None
    return person or await console.identity.person(request)


def browser(request: Request) -> tuple[bool, str]:
    """Whether the browser has its cookie, and what that is or is to be."""
    known = cookie(request, VISITOR) or ""
    return (True, known) if 16 <= len(known) <= 64 and known.isascii() else (False, new_visitor())


def keep(console: Console, request: Request, response: Response, visitor: str | None) -> None:
    """Let the browser have its cookie, and its session for longer."""
    path, secure = console.link(request, "/"), console.is_secure(request)
    if visitor is not None:
        response.set_cookie(VISITOR, visitor, path=path, secure=secure, httponly=True, samesite="lax")
    if console.identity.signs_in:
        console.sessions.renew(request, response, path=path, secure=secure)


async def checked_form(
    console: Console, request: Request, person: Person | None, *, once: bool = True
) -> dict[str, str]:
    """The fields of a form, once it is known to be the person's own.

    Args:
        once: whether it counts once.

    Raises:
        Refused: it is too large or too slow, is no form, comes too often or from elsewhere, or was sent before.
    """
    if person is not None:
        _wait(console.rates.acts.wait(person.name))
    form, visitor = await _fields(request), cookie(request, VISITOR)
    given = form.pop(TOKEN, "")
    try:
        why = console.forms.refusal(request, given, visitor, person, once=once)
    except OSError as error:
        raise folder_unusable(error) from None
    if why is None:
        return form
    log_event(log, "refused a form", path=request.url.path, why=why, by=person.name if person else None)
    if why == TOO_OLD and visitor is not None and console.forms.is_own(request, given, visitor, person):
        kept = {**form, TOKEN: console.forms.token(visitor, person)}
        raise Refused(403, "The form was refused", f"Nothing was done: {why}.", kept=kept)
    raise Refused(403, "The form was refused", f"Nothing was done: {why}. Load its page again, and send it anew.")


def folder_unusable(error: OSError) -> Refused:
    """The answer where the folder of the console can't be read or written to."""
    log.error("the folder of the console can't be used: %s", describe(error))
    return Refused(503, "Nothing was done", "The folder of the console can't be written to: see its log.")


async def _fields(request: Request) -> dict[str, str]:
    body = await _body(request)
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        raise Refused(415, "That is no form", "Send application/x-www-form-urlencoded.")
    try:
        sent = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=1000, errors="strict")
        form = {
            name: value.replace("\r\n", "\n") for name, value in sent
        }  # browsers end lines by both (HTML 4.10.22.4)
        if any("\0" in each for each in form.values()):
            raise ValueError
    except ValueError:
        raise Refused(400, "That is no form", "It is not encoded as one.") from None
    return form


async def _body(request: Request) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(SLOWEST):
            async for chunk in request.stream():
                body += chunk
                if len(body) > LARGEST:
                    raise Refused(413, "The form is too large", f"It may have {LARGEST:,} bytes.")
    except TimeoutError:
        raise Refused(408, "The form was too slow", f"It must have come within {SLOWEST:g} s.") from None
    return bytes(body)


def refused(
    console: Console,
    request: Request,
    status: int,
    title: str,
    why: str,
    person: Person | None = None,
    kept: Mapping[str, str] | None = None,
) -> HTMLResponse:
    """A page with the reason of a refusal, and with the form that was sent, where `kept` has it."""
    text = console.render(request, "refused.html", title=title, why=why, person=person, kept=kept, token=TOKEN)
    return HTMLResponse(text, status)


def _problem(console: Console, request: Request, error: PerdureError, person: Person | None) -> Response:
    status, title = next((status, title) for kind, status, title in _TITLES if isinstance(error, kind))
    return refused(console, request, status, title, str(error), person)


async def _sign_in(console: Console, request: Request, page: Page) -> Response:
    """To the page to sign in, which leads back here; a form that was sent stays in its page meanwhile."""
    if console.identity.signs_in and page.method == "GET" and page.name != "live":
        path = request.scope["path"].removeprefix(str(request.scope.get("root_path", "")))
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(console.link(request, "/sign-in", to="" if path == "/" else path + query), 303)
    if page.method == "POST" and (form := await _own(console, request)) is not None:
        raise Refused(401, "You are signed out", "Nothing was done.", kept=form)
    return refused(console, request, 401, "Nobody is signed in", "No page is shown to somebody who is not known.")


async def _own(console: Console, request: Request) -> dict[str, str] | None:
    """The form of whoever was signed in before in this browser."""
    try:
        form = await _fields(request)
    except Refused:
        return None
    own = console.forms.is_own(request, form.get(TOKEN, ""), cookie(request, VISITOR), None)
    return form if own else None


def _deny(page: Page, person: Person) -> NoReturn:
    raise Forbidden(f"{person.name} has no role {page.role}")


def _wait(seconds: float) -> None:
    if seconds > 0:
        whole = max(1, round(seconds + 0.5))
        raise Refused(429, "Too many requests", f"Try again in {whole} s.", {"Retry-After": str(whole)})
