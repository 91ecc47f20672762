"""`console(...)`: the console as an ASGI application, for a process of its own or mounted into another one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from perdure.app import App
from perdure.console import live, signing
from perdure.console.added import added
from perdure.console.assets import Assets
from perdure.console.folder import Folder
from perdure.console.guarding import guarded, refused
from perdure.console.identity import Asked, Host, Identity
from perdure.console.jobs import Jobs
from perdure.console.limiting import Places, Rates
from perdure.console.live import Live
from perdure.console.page import Page, address
from perdure.console.pages import PAGES
from perdure.console.security import Forms, Headed, is_secure
from perdure.console.sessions import Sessions
from perdure.console.sources import Sources
from perdure.console.text import environment
from perdure.settings import Settings, settings


class Console:
    """The console; made by `console`.

    Attributes:
        pages: all of them, those of the application last.
        sources: the database and Temporal.
        forms: tokens of forms.
        sessions: of people who signed in here.
        jobs: acts on many that are under way.
        live: the streams of open pages.
    """

    def __init__(self, identity: Identity, sources: Sources, folder: Folder, public_url: str | None) -> None:
        self.identity: Identity = identity
        self.sources: Sources = sources
        self.public_url: str | None = public_url
        self.rates: Rates = Rates()
        self.places: Places = Places(min(4, max(1, sources.for_pages - 1)))
        self.folder: Folder = folder
        secret = folder.secret()
        self.forms: Forms = Forms(folder, urlsplit(public_url).netloc if public_url else None)
        self.sessions: Sessions = Sessions(folder, secret + identity.rules)
        self.jobs: Jobs = Jobs(folder)
        self.live: Live = Live(sources)
        self.assets: Assets = Assets()
        self._fixed: list[BaseRoute] = [
            Route("/assets/{name}", self.assets.answer),
            *signing.routes(self),
            *identity.routes(),
        ]
        own = [*PAGES, *live.PAGES]
        more = added(sources.app, own, [each.path for each in self._fixed if isinstance(each, Route)])
        self.pages: list[Page] = [*own, *more.pages]
        self._templates = environment(more.templates)
        served = Starlette(routes=list(self._routes()), exception_handlers={404: self._lost, 405: self._lost})
        served.router.redirect_slashes = False  # it would lead to the host that the request names
        self._served = Headed(served)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI. Connections are opened when the first page needs them: a mounted application has no start."""
        await self._served(scope, receive, send)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Console]:
        """Close its connections at the end."""
        try:
            yield self
        finally:
            await self.close()

    async def close(self) -> None:
        """Close its connections; the next page would open them again."""
        await self.live.close()
        await self.jobs.close()
        await self.sources.close()

    def link(self, request: Request, path: str, **query: object) -> str:
        """An address within the console, wherever it is mounted."""
        return address(str(request.scope.get("root_path", "")), path, query)

    def render(self, request: Request, template: str, **context: Any) -> str:
        """A template as text."""
        console = {"console": self, "request": request, "asset": lambda name: self._asset(request, name)}
        return self._templates.get_template(template).render({"view": None, **console, **context})

    def is_secure(self, request: Request) -> bool:
        """Whether cookies are for HTTPS alone."""
        return is_secure(request, self.public_url)

    def _asset(self, request: Request, name: str) -> str:
        return self.link(request, f"/assets/{name}", v=self.assets.version(name))

    def _routes(self) -> Iterator[BaseRoute]:
        yield from self._fixed
        for page in self.pages:
            yield Route(page.path, guarded(self, page), methods=[page.method], name=page.name)

    async def _lost(self, request: Request, error: Exception) -> Response:
        if request.scope["path"] == request.scope.get("root_path"):
            return RedirectResponse(self.link(request, "/"))
        status = getattr(error, "status_code", 404)
        title = "There is no such page" if status == 404 else "That is not how this page is asked for"
        return refused(self, request, status, title, "The overview leads to every page that there is.")


def console(
    identity: Identity | Asked,
    *,
    app: App | None = None,
    config: Settings | None = None,
    folder: str | Path | None = None,
    public_url: str | None = None,
) -> Console:
    """The console as an ASGI application: `host.mount("/perdure", console(who, app=app))`.

    Args:
        identity: how it finds out who somebody is: a callable of the host application, which takes a Starlette
            `Request` and gives a `Person` or None, or a coroutine of it; or one of `perdure.console.identity`.
        app: the application, whose declarations say what a state leads to and what follows a doubt.
        config: default: from the environment.
        folder: where the key is that signs cookies and forms; processes that serve the same console share it.
            Default: the setting `console_folder`.
        public_url: where browsers find it, if a proxy is before it.

    Raises:
        InvalidSetting: a setting or the folder can't be used.
        DeclarationError: a page that the application adds is not there, or stands where another one stands.
    """
    config = config or settings()
    way = identity if isinstance(identity, Identity) else Host(identity)
    return Console(way, Sources(config, app), Folder.opened(folder or config.console_folder), public_url)
