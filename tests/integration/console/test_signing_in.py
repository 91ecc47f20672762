"""Nobody sees a page who is not known: by a token that counts once, by a proxy's header, by the host, or on this
machine alone where that was asked for."""

from __future__ import annotations

import re

import httpx
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from perdure.console import Console, Host, InsecureLocal, Person, Proxy, Tokens, console
from perdure.console.security import HEADERS, VISITOR
from perdure.console.sessions import COOKIE
from tests.command import perdure
from tests.deadline import DEADLINE
from tests.integration.console.browsing import open_console, readable, serving, told
from tests.world import World


async def test_a_token_signs_one_browser_in_once_until_it_signs_out(world: World) -> None:
    folder = str(world.folder / "console")
    made = await perdure(
        world, "console", "token", "ann", "--as", "settle:order", "--as", "look", PERDURE_CONSOLE_FOLDER=folder
    )
    token = made.stdout.strip()
    assert "perdure: for ann as settle:order, look: use it once, within 10 min" in made.stderr
    async with open_console(world, Tokens()) as site:
        ann, thief = site.browser(None), site.browser(None)
        assert (await ann.http.get("/")).headers["location"] == "/sign-in"
        wrong = await ann.send("/sign-in", "/sign-in", token="guessed")
        assert wrong.status_code == 403
        assert "not known, is too old or was used before" in readable(wrong.text)
        signed = await ann.send("/sign-in", "/sign-in", token=token)
        assert "ann Sign out" in readable(signed.text)
        assert (await thief.send("/sign-in", "/sign-in", token=token)).status_code == 403
        copy = ann.http.cookies[COOKIE]
        assert readable((await ann.send("/", "/sign-out")).text).startswith("Skip to the content Perdure Sign in")
        thief.http.cookies.set(COOKIE, copy)
        assert (await thief.http.get("/")).status_code == 303, "a copy of the cookie ends with the session"
        thief.http.cookies.set(COOKIE, copy[:-4] + "AAAA")
        assert (await thief.http.get("/")).status_code == 303
    async with open_console(world, Tokens()) as site:
        token = site.console.folder.add_token(Person("ann", Person.granted("look")), 600)
        (site.console.folder.path / "sessions").rename(world.folder / "kept")
        ann = site.browser(None)
        failed = await ann.send("/sign-in", "/sign-in", token=token)
        assert (failed.status_code, "can't be written to" in readable(failed.text)) == (503, True)
        (world.folder / "kept").rename(site.console.folder.path / "sessions")
        assert (await ann.send("/sign-in", "/sign-in", token=token)).status_code == 200, "it is not used up"
    expired = await perdure(
        world, "console", "token", "bob", "--as", "look", "--for", "0s", PERDURE_CONSOLE_FOLDER=folder
    )
    async with open_console(world, Tokens()) as site:
        bob = site.browser(None)
        assert (await bob.send("/sign-in", "/sign-in", token=expired.stdout.strip())).status_code == 403


async def test_a_proxys_header_counts_from_the_proxy_alone(world: World) -> None:
    granting = {"group:ops": Person.granted("settle"), "*": Person.granted("look")}
    user, groups = "X-Forwarded-User", "X-Forwarded-Groups"
    async with (
        open_console(world, Proxy(user, ["127.0.0.0/8"], granting, groups)) as site,
        httpx.AsyncClient(timeout=DEADLINE) as http,
    ):
        page = await http.get(site.url, headers={user: "ann", groups: "dev, ops"})
        assert "ann" in readable(page.text)
        assert 'title="settle, look"' in page.text
        assert (await http.get(site.url)).status_code == 401
        assert (await http.get(site.url, headers=[(user, "ann"), (user, "root")])).status_code == 401
        assert (await http.get(site.url, headers={user: "a" * 201})).status_code == 401
    async with (
        open_console(world, Proxy(user, ["10.0.0.7"], granting)) as site,
        httpx.AsyncClient(timeout=DEADLINE) as http,
    ):
        assert (await http.get(site.url, headers={user: "ann", "X-Forwarded-For": "10.0.0.7"})).status_code == 401


async def test_a_host_application_mounts_it_and_says_who_somebody_is(world: World) -> None:
    made = console(told, config=world.config, folder=world.folder / "console")
    host = FastAPI()
    host.mount("/perdure", made)

    async def dispatching(scope: Scope, receive: Receive, send: Send) -> None:  # as in Django's asgi.py
        await made({**scope, "root_path": "/perdure"}, receive, send)

    await _works_below_perdure(made, host)
    await _works_below_perdure(made, dispatching)


async def _works_below_perdure(made: Console, host: ASGIApp) -> None:
    async with serving(made, host) as site:
        ann = site.browser("ann")
        page = await ann.get("/perdure/")
        links = set(re.findall(r'(?:href|src|action)="([^"#]+)"', page))
        assert links
        assert all(each.startswith("/perdure/") for each in links)
        for each in links:
            assert (await ann.http.get(each)).status_code in (200, 404), each
        assert "Path=/perdure/" in (await site.browser().http.get("/perdure/")).headers["set-cookie"]
        assert (await site.browser(None).http.get("/perdure/")).status_code == 401


async def test_without_authentication_it_answers_on_this_machine_alone(world: World) -> None:
    async with open_console(world, InsecureLocal()) as site:
        browser = site.browser(None)
        assert "local, not authenticated" in readable(await browser.get("/"))
        rebound = await browser.http.get("/", headers={"Host": "perdure.attacker.example"})
        assert rebound.status_code == 403
        assert "answers on this machine alone" in readable(rebound.text)
    end = await perdure(world, "console", "--insecure-local", "--host", "0.0.0.0")
    assert (end.exit_code, "would let in everybody" in end.output + end.stderr) == (2, True)


async def test_every_answer_forbids_code_and_style_in_the_page(world: World) -> None:
    async with open_console(world, Host(told)) as site:
        browser = site.browser()
        css = re.findall(r'href="(/assets/console.css[^"]+)"', await browser.get("/"))[0]
        for path in ("/", "/nowhere", css, "/assets/../app.py", "/assets/nothing.css"):
            answer = await browser.http.get(path)
            assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS, path
            assert not re.search(r"<script(?![^>]*src=)|\son\w+=|\sstyle=|<style", answer.text), path
        assert (await browser.http.get("/")).headers["cache-control"] == "no-store"
        assert "immutable" in (await browser.http.get(css)).headers["cache-control"]
        assert (await browser.http.request("TRACE", "/")).status_code == 405


async def test_behind_a_proxy_with_tls_cookies_are_for_https_and_forms_come_from_the_public_address(
    world: World,
) -> None:
    public = "https://console.example.org"
    made = console(told, config=world.config, folder=world.folder / "console", public_url=public)
    await world.db.execute("select perdure.start('order', 'a', '{}')")
    async with serving(made) as site:
        ann = site.browser("ann", "settle")
        cookie = (await ann.http.get("/")).headers["set-cookie"]
        assert "; Secure" in cookie
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        visitor = cookie.partition("=")[2].partition(";")[0]
        token = made.forms.token(visitor, Person("ann", ()))
        fields = {"form_token": token, "lifecycle": "order", "id": "a", "note": "n"}
        for origin, status in (("https://other.example.org", 403), (public, 303)):
            headers = {"Origin": origin, "Cookie": f"{VISITOR}={visitor}"}
            sent = await site.browser("ann", "settle").http.post("/act/cancel", data=fields, headers=headers)
            assert sent.status_code == status, readable(sent.text)


async def test_who_asks_too_often_waits(world: World) -> None:
    made = console(told, config=world.config, folder=world.folder / "console")
    made.rates.requests.per_minute = 5
    async with serving(made) as site:
        answers = [await site.browser().http.get("/") for _ in range(7)]
        assert [each.status_code for each in answers].count(429) >= 1
        assert int(answers[-1].headers["retry-after"]) > 0
