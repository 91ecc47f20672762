"""The pages to sign in, by a one-time token or at an identity provider, and to sign out."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from perdure.console.guarding import Refused, browser, checked_form, folder_unusable, keep, log, refused, who
from perdure.console.security import way_back
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


async def _shown(console: Console, request: Request, visitor: str) -> Response:
    return _page(console, request, visitor, request.query_params.get("to", ""))


def _page(console: Console, request: Request, visitor: str, to: str, why: str | None = None) -> Response:
    """The page, which leads to where somebody was before."""
    token = console.forms.token(visitor, None)
    text = console.render(request, "sign_in.html", form_token=token, to=to, why=why)
    return HTMLResponse(text, 200 if why is None else 403)


async def _signed_in(console: Console, request: Request, visitor: str) -> Response:
    """Only tokens that are wrong count: where all come through one proxy, nobody keeps the others out."""
    began, address = time.time(), request.client.host if request.client else ""
    form = await checked_form(console, request, None, once=False)  # its token counts once
    token = form.get("token", "").strip() if console.identity.takes_tokens else ""
    try:
        with console.folder.taking_token(token) as person:
            if person is None:
                return _not_signed_in(console, request, visitor, address, form.get("to", ""))
            response = RedirectResponse(console.link(request, way_back(form.get("to", ""))), 303)
            path = console.link(request, "/")
            console.sessions.begin(response, person, path=path, secure=console.is_secure(request), began=began)
    except OSError as error:
        raise folder_unusable(error) from None
    log_event(log, "signed in", by=person.name, peer=address)
    return response


def _not_signed_in(console: Console, request: Request, visitor: str, address: str, to: str) -> Response:
    if wait := console.rates.sign_ins.wait(address):
        raise Refused(
            429, "Too many attempts to sign in", f"Try again in {wait:.0f} s.", {"Retry-After": f"{wait:.0f}"}
        )
    log_event(log, "refused a token", peer=address)
    return _page(console, request, visitor, to, "This token is not known, is too old or was used before.")


async def _signed_out(console: Console, request: Request, visitor: str) -> Response:
    person = await who(console, request)
    response = RedirectResponse(console.link(request, "/sign-in"), 303)
    if person is None:  # the session has ended before
        return response
    form = await checked_form(console, request, person)
    if form.get("everywhere"):
        console.folder.revoke(person.name)
    console.sessions.end(request, response, path=console.link(request, "/"))
    return response
