"""The console on a real socket, and a browser without a screen: cookies, links, and forms with their tokens."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser

import httpx
from starlette.requests import Request
from starlette.types import ASGIApp

from perdure import App
from perdure.console import Console, Host, Identity, Person, console
from perdure.console.security import VISITOR
from perdure.console.serving import address, listen, serve
from tests.command import perdure
from tests.deadline import in_time
from tests.world import World

WHO = "x-test-person"
ROLES = "x-test-roles"


def told(request: Request) -> Person | None:
    """The host application's user: a test says who it is, by header."""
    name = request.headers.get(WHO)
    return None if name is None else Person(name, Person.granted(*request.headers.get(ROLES, "look").split(",")))


@dataclass
class Form(HTMLParser):
    """The hidden fields of each form of a page, by the path that it is sent to."""

    forms: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    _open: dict[str, str] | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See base class."""
        given = {name: value or "" for name, value in attrs}
        if tag == "form" and given.get("method") == "post":
            self._open = {}
            self.forms.setdefault(given["action"], []).append(self._open)
        elif tag == "input" and self._open is not None and given.get("type") == "hidden":
            self._open[given["name"]] = given["value"]

    def handle_endtag(self, tag: str) -> None:
        """See base class."""
        if tag == "form":
            self._open = None


class Browser:
    """One browser of one person."""

    def __init__(self, url: str, person: str | None = "ann", roles: str = "look") -> None:
        headers = {} if person is None else {WHO: person, ROLES: roles}
        self.http = httpx.AsyncClient(base_url=url, headers=headers, timeout=120)

    async def get(self, path: str, status: int = 200, **query: str) -> str:
        """A page's text, once its status is as expected."""
        answer = await self.http.get(path, params=query or None)
        assert answer.status_code == status, (path, answer.status_code, readable(answer.text))
        return answer.text

    async def form(self, page: str, action: str, number: int = 0) -> dict[str, str]:
        """The hidden fields of a form on a page."""
        found = Form()
        found.feed(await self.get(page))
        assert action in found.forms, f"{page} has no form for {action}: {sorted(found.forms)}"
        return found.forms[action][number]

    async def send(self, page: str, action: str, *, number: int = 0, **fields: str) -> httpx.Response:
        """Fill in a form of a page, and send it; redirects are followed."""
        fields = {**await self.form(page, action, number), **fields}
        return await self.http.post(action, data=fields, follow_redirects=True)


@dataclass
class Site:
    """The console, served.

    Attributes:
        url: where.
    """

    url: str
    console: Console
    _browsers: list[Browser] = field(default_factory=list)

    def browser(self, person: str | None = "ann", roles: str = "look") -> Browser:
        """Another browser of somebody; it is closed with the site."""
        self._browsers.append(Browser(self.url, person, roles))
        return self._browsers[-1]

    def token(self, browser: Browser) -> str:
        """A token such as the forms of a page that this browser has loaded hold, whatever its person may do."""
        person = Person(browser.http.headers[WHO], ())
        return self.console.forms.token(browser.http.cookies[VISITOR], person)

    async def close(self) -> None:
        """Close the browsers."""
        for each in self._browsers:
            await each.http.aclose()


@asynccontextmanager
async def serving(made: Console, app: ASGIApp | None = None) -> AsyncIterator[Site]:
    """The console on a socket, or an application that it is mounted in."""
    stop, listening = asyncio.Event(), listen("127.0.0.1", 0)
    running = asyncio.create_task(serve(made, listening, stop.wait(), app=app))
    site = Site(address(listening), made)
    try:
        yield site
    finally:
        await site.close()
        stop.set()
        await in_time(running)


@asynccontextmanager
async def open_console(
    world: World, identity: Identity | None = None, app: App | None = None, *, granted: str | None = None
) -> AsyncIterator[Site]:
    """The console of a world.

    Args:
        granted: its database role has what `perdure grant --as` gives for this, and no more.
    """
    async with AsyncExitStack() as until:
        url = await until.enter_async_context(_role(world, granted)) if granted else world.config.database_url
        config = world.config.model_copy(update={"database_url": url})
        made = console(identity or Host(told), app=app, config=config, folder=world.folder / "console")
        yield await until.enter_async_context(serving(made))


@asynccontextmanager
async def _role(world: World, granted: str) -> AsyncIterator[str]:
    role = f"desk_{world.scope}".replace("-", "_")
    await world.db.execute(f'create role "{role}" login')
    try:
        end = await perdure(world, "grant", role, "--as", granted)
        assert end.exit_code == 0, end.output
        yield world.dsn.replace("postgres@", f"{role}@")
    finally:
        await world.db.execute(f'drop owned by "{role}" cascade; drop role "{role}"')


def readable(page: str) -> str:
    """The text of a page, as a person reads it."""
    body = re.sub(r"<(title|script|style)[^>]*>.*?</\1>", " ", page.partition("<body")[2], flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body.partition(">")[2])).split())
