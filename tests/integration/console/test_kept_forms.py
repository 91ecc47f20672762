"""What somebody has filled in is not lost if the session ends meanwhile, or the form gets too old; nothing is done."""

from __future__ import annotations

import pytest
from playwright.async_api import Page

from infra.needs import is_needed
from perdure.console import Person, Tokens, security
from tests.apps.talking import app
from tests.integration.console.browsing import Site, open_console
from tests.integration.console.chromium import Window, chromium, why_no_chromium, window
from tests.integration.operations.acts import record
from tests.world import World

pytestmark = pytest.mark.world(app)

ENDED = """
    insert into perdure.ident (lifecycle, id, final) select 'ring', each, 'done' from unnest(array['a', 'b']) each;
    insert into perdure.finished (lifecycle, id, generation, state, input, created_at)
        select lifecycle, id, 0, 'done', '{}', now() from perdure.ident;
    insert into perdure.effect
        (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline, why)
        select 'key-' || id, 'ring', id, 0, 'do-ring', 't', 'in_doubt', 'd', now(), now(), now(), 'no answer'
        from perdure.ident;
"""
GROUP = "/inbox/doubts?lifecycle=ring&effect=do-ring&ended=on"


async def test_a_form_outlives_the_session_of_its_person_and_its_own_token(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing := why_no_chromium():
        pytest.fail(missing) if is_needed("chromium") else pytest.skip(missing)
    await world.db.execute(ENDED)
    async with (
        open_console(world, Tokens(), app) as site,
        chromium() as browser,
        window(browser, site, timezone_id="UTC") as ann,
    ):
        await ann.page.goto("/act/resolve?lifecycle=ring&id=a&key=key-a")
        await sign_in(site, ann.page, "ann")
        await ann.page.wait_for_url("**/act/resolve?lifecycle=ring&id=a&key=key-a")
        await settle(ann.page, "their log has it\n<b>twice</b>")
        site.console.folder.revoke("ann")
        await ann.page.click("form.act button")
        await kept(ann, "You are signed out Nothing was done. What you filled in stands below.")
        assert await record(world, "ring", "a") == []
        async with ann.page.context.expect_page() as opened:
            await ann.page.click("text=Sign in in another tab")
        other = await opened.value
        await sign_in(site, other, "ann")
        await other.wait_for_selector("text=everywhere")
        await ann.page.click("text=Send it again")
        await ann.shows("resolved as done")
        written = "do-ring resolved as done: their log has it\n<b>twice</b>"
        assert await record(world, "ring", "a") == [("done", "ann", written)]

        await ann.page.goto("/act/resolve?lifecycle=ring&id=b&key=key-b")
        await settle(ann.page, "and this one")
        await other.click("text=Sign out")
        await ann.page.click("form.act button")
        await kept(ann, "You are signed out")
        await sign_in(site, other, "bob")
        await ann.page.click("text=Send it again")
        await ann.shows("it was made for another browser or another person")
        assert "and this one" not in await ann.page.content()

        await world.db.execute(
            ENDED.replace("'a', 'b'", "'c', 'd'").replace("from perdure.ident;", "from perdure.ident where id > 'b';")
        )
        await ann.page.goto(GROUP)
        await ann.page.check("input[value=key-c]")
        await ann.page.click("text=Settle some, by a list")
        await ann.page.fill("textarea[name=list]", 'key-d {"number": 8}')
        with monkeypatch.context() as old:
            old.setattr(security, "FORM_AGE", -1)
            await ann.page.click("text=Settle those that are ticked or listed")
            await kept(ann, "The form was refused Nothing was done: its token is too old.")
        await ann.page.click("text=Send it again")
        await ann.shows("Settle 2")
        await ann.shows("1 line has a receipt")
        assert await record(world, "ring", "b") == []
        assert [each for each in ann.said if "40" not in each] == [], "the browser logs each refusal by its status"


async def test_nobody_makes_a_page_of_the_console_show_what_they_sent(world: World) -> None:
    async with open_console(world, Tokens(), app) as site:
        ann, stranger = site.browser("ann"), site.browser("eve")
        await ann.get("/sign-in")
        await stranger.get("/sign-in")
        fields = {"note": "look at this", "form_token": site.token(ann)}
        for browser, more, headers in (
            (ann, {"form_token": ""}, {}),
            (ann, {"form_token": fields["form_token"] + "x"}, {}),
            (ann, {}, {"Sec-Fetch-Site": "cross-site"}),
            (ann, {}, {"Origin": "https://another.example"}),
            (stranger, {}, {}),
        ):
            sent = await browser.http.post("/act/cancel", data=fields | more, headers=headers)
            assert sent.status_code == 401, (more, headers)
            assert "look at this" not in sent.text, (more, headers)
        for place in (
            "//another.example",
            "/\\another.example",
            "https://another.example",
            "/\n//another.example",
            "x",
        ):
            token = site.console.folder.add_token(Person("ann", Person.granted("look")), 60)
            signed = await ann.form("/sign-in", "/sign-in")
            answer = await ann.http.post("/sign-in", data={**signed, "token": token, "to": place})
            assert answer.headers["location"] == "/", place


async def sign_in(site: Site, page: Page, name: str) -> None:
    """On the page to do so."""
    await page.fill("#token", site.console.folder.add_token(Person(name, Person.granted("bulk")), 60))
    await page.click("main button")


async def settle(page: Page, note: str) -> None:
    """Fill in the form, without sending it."""
    await page.check("input[value=done]")
    await page.fill("textarea[name=receipt]", '{"number": 7}')
    await page.fill("textarea[name=note]", note)


async def kept(ann: Window, words: str) -> None:
    """The page says so, has what was filled in, and nothing of it stands in its address."""
    await ann.shows(words)
    assert await ann.violations() == []
    assert "note" not in ann.page.url
    assert "list" not in ann.page.url
