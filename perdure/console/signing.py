"""The pages to sign in, by a one-time token or at an identity provider, and to sign out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from perdure.console.guarding import Refused, browser, check_rate, checked_form, keep, log, refused, who
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
            check_rate(console, request, None)
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
    address = request.client.host if request.client else ""
    if wait := console.rates.sign_ins.wait(address):
        raise Refused(
            429, "Too many attempts to sign in", f"Try again in {wait:.0f} s.", {"Retry-After": f"{wait:.0f}"}
        )
    form = await checked_form(console, request, None)
    person = console.folder.take_token(form.get("token", "").strip()) if console.identity.takes_tokens else None
    if person is None:
        log_event(log, "refused a token", peer=address)
        return await _shown(console, request, visitor, "This token is not known, is too old or was used before.")
    log_event(log, "signed in", by=person.name, peer=address)
    response = RedirectResponse(console.link(request, "/"), 303)
    console.sessions.begin(response, person, path=console.link(request, "/"), secure=console.is_secure(request))
    return response


async def _signed_out(console: Console, request: Request, visitor: str) -> Response:
    await checked_form(console, request, await who(console, request))
    response = RedirectResponse(console.link(request, "/sign-in"), 303)
    console.sessions.end(request, response, path=console.link(request, "/"))
    return response
