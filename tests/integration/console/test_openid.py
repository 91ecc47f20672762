"""People sign in at an identity provider; what it says of them decides what they may do, and nothing else signs in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn

from perdure.console import Person
from perdure.console.folder import Folder
from perdure.console.openid import COOKIE, OpenId
from perdure.console.serving import address, listen
from perdure.console.sessions import Sessions
from tests.deadline import in_time, until
from tests.integration.console.browsing import open_console, readable
from tests.integration.console.provider import CLIENT, SECRET, Provider
from tests.world import World


@asynccontextmanager
async def provided() -> AsyncIterator[Provider]:
    """A provider that answers."""
    provider, listening = Provider(), listen("127.0.0.1", 0)
    provider.issuer = address(listening).rstrip("/")
    server = uvicorn.Server(uvicorn.Config(provider.app, log_config=None, lifespan="off"))
    running = asyncio.create_task(server._serve([listening]))
    try:
        await until(lambda: server.started, "the provider serves")
        yield provider
    finally:
        server.should_exit = True
        await in_time(running)
        listening.close()


async def test_who_signs_in_at_the_provider_has_the_roles_of_name_and_groups(world: World) -> None:
    folder = Folder.opened(world.folder / "console")
    granting = {"group:ops": Person.granted("settle:order"), "ann": Person.granted("payloads")}
    async with provided() as provider:
        sessions = Sessions(folder, folder.secret())
        way = OpenId(provider.issuer, CLIENT, SECRET, granting, sessions)
        async with open_console(world, way) as site:
            ann = site.browser(None)
            assert (await ann.http.get("/")).headers["location"] == "/sign-in"
            assert "Sign in with your organisation" in readable(await ann.get("/sign-in"))
            assert "token" not in await ann.get("/sign-in")
            provider.claims = {"preferred_username": "ann", "groups": ["ops", "dev"]}
            page = await ann.http.get("/sign-in/openid", follow_redirects=True)
            assert page.status_code == 200, page.text
            assert page.url.path == "/"
            assert "ann Sign out" in readable(page.text)
            assert 'title="payloads, settle:order"' in page.text
            for claims, status in (
                ({"preferred_username": "eve", "groups": []}, 403),
                ({"preferred_username": "ann", "aud": "another"}, 400),
                ({"preferred_username": "ann", "iss": "https://other.example"}, 400),
                ({"preferred_username": "ann", "exp": 1}, 400),
                ({"preferred_username": "ann", "nonce": "replayed"}, 400),
                ({"preferred_username": "ann", "preferred_username_verified": False}, 403),
                ({"preferred_username": "ann", "preferred_username_verified": "false"}, 403),
                ({"preferred_username": "eve", "groups": [{"name": "ops"}, ["ops"], None, 7]}, 403),
                ({"preferred_username": "eve", "groups": {"ops": True}}, 403),
                ({"preferred_username": "a\u202eb", "groups": ["ops"]}, 403),
            ):
                provider.claims = dict(claims)
                stranger = site.browser(None)
                refused = await stranger.http.get("/sign-in/openid", follow_redirects=True)
                assert refused.status_code == status, (claims, refused.text)
                assert (await stranger.http.get("/")).status_code == 303
            for known in (
                {"preferred_username": "eve", "groups": "ops"},
                {"preferred_username": "eve", "groups": [{"name": "dev"}, "ops"]},
                {"preferred_username": "ann", "preferred_username_verified": "True"},
            ):
                provider.claims = dict(known)
                page = await site.browser(None).http.get("/sign-in/openid", follow_redirects=True)
                assert page.status_code == 200, (known, page.text)
            thief = site.browser(None)
            provider.claims = {"preferred_username": "ann"}
            begun = await thief.http.get("/sign-in/openid")
            back = (await thief.http.get(begun.headers["location"])).headers["location"]
            victim = site.browser(None)
            assert (await victim.http.get(back)).status_code == 400, "another browser's sign-in is not taken over"
            assert COOKIE in thief.http.cookies
            first = await thief.http.get("/sign-in/openid")
            await thief.http.get("/sign-in/openid")
            back = (await thief.http.get(first.headers["location"])).headers["location"]
            of_two = await thief.http.get(back)
            assert (of_two.status_code, "another tab may have begun to sign in" in of_two.text) == (400, True)
    async with open_console(world, way) as site:
        assert (await site.browser(None).http.get("/sign-in/openid")).status_code in (302, 502), "it is away"
