"""Mounted into an application, the console works behind that one's middlewares, and stays as closed as by itself."""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import sys
from pathlib import Path
from typing import cast

import pytest
from django.conf import settings as django_settings
from django.conf.urls.i18n import i18n_patterns
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.urls import path
from fastapi import FastAPI, Response
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from infra.needs import is_needed
from perdure.console import Console, Person, Tokens, console, mounted
from perdure.console.security import VISITOR
from perdure.console.sessions import COOKIE
from tests.deadline import DEADLINE, in_time, until
from tests.integration.console.browsing import Site, readable, serving, told
from tests.integration.console.chromium import chromium, why_no_chromium, window
from tests.world import World

PAGE = Path(__file__).parents[3] / "docs" / "console.md"
ROOT, AT = "/site", "/site/perdure"
OF_HOST = "default-src * 'unsafe-inline'"
MIDDLEWARES = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.gzip.GZipMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
CONFUSED = (
    *("//site/perdure/list", f"{AT}//list", f"{ROOT}//perdure/list", f"{AT}/%2e%2e/perdure/list"),
    *(f"{AT}/../perdure/list", f"{AT}/list/", f"{AT}/LIST", f"{AT}//another.example/", f"{AT}/list%00"),
)


class Own:
    """What a host application does to each answer: a policy of its own, and a cookie for all paths."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""

        async def changed(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [each for each in message["headers"] if each[0] != b"content-security-policy"]
                message["headers"] = [*kept, (b"content-security-policy", OF_HOST.encode())]
            await send(message)

        await self._app(scope, receive, changed if scope["type"] == "http" else send)


def in_fastapi(made: Console) -> FastAPI:
    """With what applications commonly have before their routes."""
    host = FastAPI(
        middleware=[
            Middleware(GZipMiddleware, minimum_size=1),
            Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"]),
            Middleware(CORSMiddleware, allow_origins=["*"], allow_credentials=True),
            Middleware(SessionMiddleware, secret_key="k", session_cookie=COOKIE),
            Middleware(Own),
        ]
    )

    @host.get("/page")
    async def page(request: Request) -> Response:
        request.session["of the host"] = "kept"
        icon = (
            '<link rel="icon" href="data:,">'  # else the browser asks for one, and says at some time that there is none
        )
        return Response(f"<!doctype html><title>host</title>{icon}", media_type="text/html")

    host.mount("/perdure", made)
    return host


def in_django(made: Console, *, prefix: str | None = None) -> ASGIApp:
    """As the documentation has it, beside an application with all of Django's middlewares that need no table."""
    if not django_settings.configured:
        django_settings.configure(USE_TZ=True, LOGGING_CONFIG=None)
    more = {
        "ROOT_URLCONF": type("Urls", (), {"urlpatterns": [*i18n_patterns(path("page/", _page)), path("page", _page)]}),
        "MIDDLEWARE": MIDDLEWARES,
        "SESSION_ENGINE": "django.contrib.sessions.backends.signed_cookies",
        "SECRET_KEY": "k",
        "ALLOWED_HOSTS": ["127.0.0.1"],
        "FORCE_SCRIPT_NAME": prefix,
    }
    for name, value in more.items():
        setattr(django_settings, name, value)
    return mounted(cast(ASGIApp, get_asgi_application()), made, prefix=prefix)


def _page(request: HttpRequest) -> HttpResponse:
    request.session["of the host"] = "kept"
    return HttpResponse(f"host {get_token(request)}" + 500 * "-")


def in_django_by_name(made: Console) -> ASGIApp:
    """Behind a proxy that removes the prefix from each path, which Django knows by FORCE_SCRIPT_NAME alone."""
    django = in_django(made, prefix=ROOT)

    async def stripped(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(ROOT) if scope["type"] == "http" else ""
        await django({**scope, "root_path": "", "path": path}, receive, send)

    return stripped


def below(app: ASGIApp) -> ASGIApp:
    """As a server with `--root-path` calls an application."""

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "root_path": ROOT, "path": ROOT + scope["path"].removeprefix(ROOT)}, receive, send)

    return called


@pytest.mark.parametrize("host", [in_fastapi, in_django, in_django_by_name])
async def test_a_host_with_middlewares_of_its_own_breaks_no_page_and_opens_none(world: World, host: object) -> None:
    assert callable(host)
    made = console(told, config=world.config, folder=world.folder / "console")
    await world.db.execute("select perdure.start('order', 'a', '{}')")
    async with serving(made, below(host(made))) as site:
        ann = site.browser("ann", "settle")
        assert (await ann.http.get(f"{ROOT}/page")).is_success, "the host answers, and leaves its cookies"
        assert (await ann.http.get(AT)).headers["location"].endswith(f"{AT}/")
        page = await ann.get(f"{AT}/list")
        places = set(re.findall(r'(?:href|src|action)="([^"#]+)"', page))
        assert all(each.startswith(f"{AT}/") for each in places), places
        async with ann.http.stream("GET", f"{AT}/live", timeout=None) as stream:
            assert "event: open" in await anext(stream.aiter_text()), "nothing holds events back"
        await until(lambda: made.live.streams == 0, "the stream ends with its page")
        for elsewhere in ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}, {"Origin": "https://x.example"}):
            for each in (f"{AT}/list", f"{AT}/live"):
                assert (await ann.http.get(each, headers=elsewhere)).status_code == 403, (each, elsewhere)
        linked = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        for kind, status in (("document", 200), ("iframe", 403)):
            answer = await ann.http.get(f"{AT}/list", headers={**linked, "Sec-Fetch-Dest": kind})
            assert answer.status_code == status, kind
        for each in CONFUSED:
            assert await asyncio.to_thread(raw, site, each) == 404, each
        form = await ann.form(f"{AT}/act/cancel?lifecycle=order&id=a", f"{AT}/act/cancel")
        override = {"X-HTTP-Method-Override": "POST", "X-Method-Override": "POST"}
        await ann.http.get(f"{AT}/act/cancel", params={**form, "_method": "POST"}, headers=override)
        assert (await ann.http.post(f"{AT}/list", data=form, headers=override)).status_code == 405
        for origin in ("null", "https://x.example", "http://127.0.0.1.x.example"):
            sent = await ann.http.post(f"{AT}/act/cancel", data=form, headers={"Origin": origin})
            assert sent.status_code == 403, origin
        assert not await world.db.fetchval("select exists (select from perdure.message)")
        sent = await ann.http.post(f"{AT}/act/cancel", data=form, follow_redirects=True)
        assert "its end is requested" in readable(sent.text), "each of those left the form as it was"


async def test_a_hosts_cookie_of_the_same_name_and_its_policy_weaken_nothing(world: World) -> None:
    if missing := why_no_chromium():
        pytest.fail(missing) if is_needed("chromium") else pytest.skip(missing)
    made = console(Tokens(), config=world.config, folder=world.folder / "console")
    async with (
        serving(made, below(in_fastapi(made))) as site,
        chromium() as browser,
        window(browser, site) as ann,
    ):
        await ann.page.goto("/site/page")
        await ann.page.goto(f"{AT}/list?state=paid")
        await ann.page.fill("#token", made.folder.add_token(Person("ann", Person.granted("look")), 60))
        await ann.page.click("main button")
        await ann.page.wait_for_url(f"**{AT}/list?state=paid")
        await ann.page.goto("/site/page")
        names = [each["name"] for each in await ann.page.context.cookies()]
        assert sorted(names) == sorted([COOKIE, COOKIE, VISITOR]), "the host's is kept, and so is the console's"
        ann.said.clear()
        await ann.page.goto(f"{AT}/list")
        await ann.shows("live")
        script = "document.body.append(Object.assign(document.createElement('script'), {textContent: 'ran = 1'}))"
        await ann.page.evaluate(script)
        assert await ann.page.evaluate("typeof ran") == "undefined", "the host's policy would have let it"
        assert [each for each in ann.said if "Content Security Policy" not in each] == []


SIGNED_IN = """
import asyncio, sys
import django
from django.conf import settings
from starlette.requests import Request

settings.configure(
    SECRET_KEY="k",
    USE_TZ=True,
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "users"}},
)
django.setup()
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

call_command("migrate", verbosity=0)
exec(sys.argv[1])


def person(user):
    browser = Client()
    if user is not None:
        browser.force_login(user)
    cookie = "; ".join(f"{name}={each.value}" for name, each in browser.cookies.items())
    found = asyncio.run(who(Request({"type": "http", "headers": [(b"cookie", cookie.encode())]})))
    return found and found.name


ann, bob = User.objects.create(username="ann", is_staff=True), User.objects.create(username="bob")
print(*map(person, (ann, bob, None)))
"""


async def test_djangos_staff_are_the_people_of_the_console_as_the_documentation_has_it(tmp_path: Path) -> None:
    block = PAGE.read_text().partition("<!-- runs in Django -->\n```python\n")[2].partition("```")[0]
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SIGNED_IN, block),
        cwd=tmp_path,
        env={**os.environ, "PERDURE_CONSOLE_FOLDER": str(tmp_path / "console")},
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await in_time(running.communicate())
    assert (running.returncode, output.decode().split()) == (0, ["ann", "None", "None"])


def raw(site: Site, place: str) -> int:
    """The status of an address, exactly as it is written."""
    connection = http.client.HTTPConnection(site.url.removeprefix("http://").rstrip("/"), timeout=DEADLINE)
    try:
        connection.request("GET", place, headers={"x-test-person": "ann"})
        return connection.getresponse().status
    finally:
        connection.close()
