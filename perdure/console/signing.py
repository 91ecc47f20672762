"""The pages to sign in, by a one-time token or at an identity provider, and to sign out."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from perdure.console.guarding import Refused, browser, checked_form, keep, log, refused, who
from perdure.logs import log_event

if TYPE_CHECKING:
    from perdure.console.app import Console


def routes(console: Console) -> Iterator[Route]:
    """None where people do not sign in here."""
    if console.identity.signs_in:
        yield Route("/sign-in", _answered(console, _shown), methods=["GET"])
        yield Route("/sign-in", _answered(console, _signed_in), methods=["POST"])
        yield Route("/sign-out", _answered(console, _signed_out), methods=["POST"])


Answer = Callable[["Console", Request, str], Awaitable[Response]]


def _answered(console: Console, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            known, visitor = browser(request)
            response = await answer(console, request, visitor)
        except Refused as error:
            response = refused(console, request, error.status, error.title, error.why)
            response.headers.update(error.headers or {})
            return response
        if not known:
            keep(console, request, response, visitor)
        return response

    return endpoint


async def _shown(console: Console, request: Request, visitor: str, why: str | None = None) -> Response:
    token = console.forms.token(visitor, None)
    text = console.render(request, "sign_in.html", form_token=token, why=why)
    return HTMLResponse(text, 200 if why is None else 403)


async def _signed_in(console: Console, request: Request, visitor: str) -> Response:
    """Only tokens that are wrong count: where all come through one proxy, nobody keeps the others out."""
    began, address = time.time(), request.client.host if request.client else ""
    form = await checked_form(console, request, None, once=False)  # its token counts once
    person = console.folder.take_token(form.get("token", "").strip()) if console.identity.takes_tokens else None
    if person is None:
        return await _not_signed_in(console, request, visitor, address)
    log_event(log, "signed in", by=person.name, peer=address)
    response, path = RedirectResponse(console.link(request, "/"), 303), console.link(request, "/")
    console.sessions.begin(response, person, path=path, secure=console.is_secure(request), began=began)
    return response


async def _not_signed_in(console: Console, request: Request, visitor: str, address: str) -> Response:
    if wait := console.rates.sign_ins.wait(address):
        raise Refused(
            429, "Too many attempts to sign in", f"Try again in {wait:.0f} s.", {"Retry-After": f"{wait:.0f}"}
        )
    log_event(log, "refused a token", peer=address)
    return await _shown(console, request, visitor, "This token is not known, is too old or was used before.")


async def _signed_out(console: Console, request: Request, visitor: str) -> Response:
    person = await who(console, request)
    form = await checked_form(console, request, person)
    if person is not None and form.get("everywhere"):
        console.folder.revoke(person.name)
    response = RedirectResponse(console.link(request, "/sign-in"), 303)
    console.sessions.end(request, response, path=console.link(request, "/"))
    return response
