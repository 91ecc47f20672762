"""Who may use the console is listed, and ends at once: for a session, for all of a person's, at every process."""

from __future__ import annotations

from perdure.console import Tokens
from perdure.console.sessions import COOKIE
from tests.command import perdure
from tests.integration.console.browsing import open_console, readable
from tests.world import World


async def test_a_person_is_revoked_at_every_console_and_may_be_let_in_again(world: World) -> None:
    folder = str(world.folder / "console")

    async def command(*arguments: str) -> str:
        end = await perdure(world, "console", *arguments, PERDURE_CONSOLE_FOLDER=folder)
        assert end.exit_code == 0, end.output
        return end.stdout.strip()

    used, unused, bobs = [await command("token", name, "--as", "look:order") for name in ("ann", "ann", "bob")]
    async with open_console(world, Tokens()) as site, open_console(world, Tokens()) as other:
        ann, bob = site.browser(None), site.browser(None)
        for browser, token in ((ann, used), (bob, bobs)):
            assert (await browser.send("/sign-in", "/sign-in", token=token)).status_code == 200
        there = await command("people")
        assert [line.split()[0] for line in there.splitlines()[1:]] == ["ann", "ann", "bob"]
        assert there.count("signed in") == 2
        assert there.count("token, not used") == 1
        assert used not in there
        assert unused not in there
        assert await command("revoke", "ann") == "sessions ended: 1, tokens used up: 1"
        for each in (site, other):
            assert (await ann.http.get(each.url)).status_code == 303
            assert (await bob.http.get(each.url)).status_code == 200
        assert (await ann.send("/sign-in", "/sign-in", token=unused)).status_code == 403
        again = await command("token", "ann", "--as", "look")
        assert "ann Sign out" in readable((await ann.send("/sign-in", "/sign-in", token=again)).text)
        assert [line.split()[0] for line in (await command("people")).splitlines()[1:]] == ["ann", "bob"]
    nobody = await perdure(world, "console", "revoke", "eve", PERDURE_CONSOLE_FOLDER=folder)
    assert nobody.exit_code == 1
    assert "'eve' was not signed in, and held no token" in nobody.stderr


async def test_somebody_signs_out_everywhere(world: World) -> None:
    async with open_console(world, Tokens()) as site:
        browsers = [site.browser(None) for _ in range(3)]
        for browser in browsers:
            made = await perdure(
                world, "console", "token", "ann", "--as", "look", PERDURE_CONSOLE_FOLDER=str(world.folder / "console")
            )
            await browser.send("/sign-in", "/sign-in", token=made.stdout.strip())
        one, two, three = browsers
        copy = one.http.cookies[COOKIE]
        await one.send("/", "/sign-out")
        one.http.cookies.set(COOKIE, copy)
        assert [(await each.http.get("/")).status_code for each in browsers] == [303, 200, 200]
        await two.send("/", "/sign-out", everywhere="on")
        assert [(await each.http.get("/")).status_code for each in browsers] == [303, 303, 303]
        assert (await three.http.get("/live")).status_code == 401
