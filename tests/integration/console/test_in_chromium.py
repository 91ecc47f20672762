"""The console in a real browser: accessible, within a phone, by keyboard, live, without scripts, with hostile data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from infra.needs import is_needed
from perdure.console import live
from tests.apps.contracts import Booking
from tests.apps.talking import Ring, app
from tests.integration.console.browsing import open_console
from tests.integration.console.chromium import PHONE, Window, chromium, why_no_chromium, window
from tests.integration.operations.acts import LOST, parked, record
from tests.world import World

pytestmark = pytest.mark.world(app)

HOSTILE = "<img src=x onerror=alert(1)>{{7*7}}=cmd|' /C calc'!A0</textarea><script>alert(2)</script>"
UNSEEN = "\u202e\u200b\x1b[2J"
ROWS = (
    "insert into perdure.ident (lifecycle, id, tenant) select 'ring', $1 || n, $1 from generate_series(1, 3) n",
    "insert into perdure.entity (lifecycle, id, generation, state, attention, tenant, input) "
    "select 'ring', $1 || n, 0, $1, $2, $1, to_jsonb($1::text) from generate_series(1, 3) n",
    "insert into perdure.effect (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, "
    "deadline, why, receipt) select $1 || n, 'ring', $1 || n, 0, 'do-ring', 't', 'in_doubt', 'd', now(), now(), now(), "
    "$2, to_jsonb($1::text) from generate_series(1, 2) n",
    "insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, message_id, reason) "
    "select 1, 'ring', $1 || 3, 0, 'message', to_jsonb($1::text), $1, $2",
    "insert into perdure.finding (kind, lifecycle, id, about, what, advice, run) "
    "select $1, 'ring', $1 || 1, $1, $2, $1, 1",
    "select perdure.note('ring', $1 || 1, $1, $2)",
    "select perdure.relay_seen($1, array[$2::text], '{}')",
)
PATHS = (
    *("/", "/inbox", "/inbox/doubts?lifecycle=ring", "/inbox/attention?lifecycle=ring", "/list", "/list?finished=on"),
    *(
        "/search?q=nothing",
        "/rejected",
        "/rejected/retry?seq=1",
        "/rejected/drop?lifecycle=ring",
        "/findings",
        "/audit",
    ),
    *("/limits", "/workers", "/jobs", "/act/resolve?lifecycle=ring&effect=do-ring", "/act/cancel?lifecycle=ring"),
)
ENTITY = "/entity/ring?id={}", "/act/resolve?lifecycle=ring&id={}", "/act/cancel?lifecycle=ring&id={}"


@pytest.fixture
async def browser(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Browser]:
    if missing := why_no_chromium():
        pytest.fail(missing) if is_needed("chromium") else pytest.skip(missing)
    monkeypatch.setattr(live, "EVERY", 0.1)
    async with chromium() as found:
        yield found


async def test_each_page_is_accessible_fits_a_phone_and_shows_hostile_data_as_text(
    world: World, browser: Browser
) -> None:
    for each in ROWS:
        await world.db.execute(each, *(HOSTILE, HOSTILE + UNSEEN)[: 2 if "$2" in each else 1])
    async with (
        open_console(world, app=app) as site,
        window(browser, site, "<b>ann", "administer,payloads", viewport=PHONE) as phone,
    ):
        wrong = []
        quoted = HOSTILE.translate({ord(each): f"%{ord(each):02X}" for each in "%&=#? '<>/{}|*"})
        for path in (*PATHS, *(each.format(quoted + "1") for each in ENTITY)):
            wrong += await phone.problems(path)
            injected = await phone.page.evaluate("document.querySelectorAll('main img, main script').length")
            assert injected == 0, path
            assert "\u202e" not in await phone.page.content(), path
        assert wrong == [], "\n".join(wrong)
        await phone.page.goto(ENTITY[0].format(quoted + "1"))
        assert HOSTILE in await phone.text(), "it is shown exactly"


async def test_a_doubt_is_settled_by_keyboard_alone_seen_live_and_by_the_second_person_without_scripts(
    world: World, browser: Browser
) -> None:
    world.counterparty.replies_to = {"a": [LOST], "b": [LOST]}
    async with (
        world.worker(app),
        open_console(world, app=app) as site,
        window(browser, site, "ann", "settle") as ann,
        window(browser, site, "bob", "settle", java_script_enabled=False) as bob,
        window(browser, site, "eve", "look") as eve,
    ):
        await eve.page.goto("/inbox")
        await eve.shows("Nothing waits for a person.")
        await eve.shows("live")
        for name in "ab":
            await world.client.start(Ring, name, Booking())
        await parked(world, 2)
        await eve.shows("2 in doubt: do-ring of ring")
        await bob.page.goto("/act/resolve?lifecycle=ring&id=a")
        await _settle_by_keyboard(ann)
        await ann.shows("resolved as done")
        assert await world.ended("ring", "a") == "done"
        await eve.shows("1 in doubt: do-ring of ring")
        await _settle(bob, "not_done", "they never saw it")
        assert "It was refused" in await bob.text(), "somebody was faster"
        assert await record(world, "ring", "a") == [("doing", "ann", "do-ring resolved as done: their log has it")]
        await bob.page.goto("/inbox")
        await bob.page.click("main a.button:has-text('Settle')")
        await bob.page.click("main a.button:has-text('Settle…')")
        await bob.page.fill("textarea[name=receipt]", '{"number": 8}')
        await _settle(bob, "done", "their log has it, too")
        assert "resolved as done" in await bob.text()
        await eve.shows("Nothing waits for a person.")
        assert ann.said == eve.said == []


async def _settle_by_keyboard(ann: Window) -> None:
    await ann.page.goto("/inbox")
    await ann.tab_to("Settle")
    await ann.page.keyboard.press("Enter")
    await ann.page.wait_for_url("**/inbox/doubts?**")
    await ann.tab_to("ring/a")
    await ann.tab_to("Settle")
    await ann.page.keyboard.press("Enter")
    await ann.page.wait_for_url("**/act/resolve?**")
    await ann.tab_to("done")
    await ann.page.keyboard.press("Space")
    await ann.tab_to("Receipt as JSON")
    await ann.page.keyboard.type('{"number": 7}')
    await ann.tab_to("Note")
    await ann.page.keyboard.type("their log has it")
    await ann.tab_to("Settle")
    await ann.page.keyboard.press("Enter")


async def _settle(bob: Window, outcome: str, note: str) -> None:
    await bob.page.check(f"input[value={outcome}]")
    await bob.page.fill("textarea[name=note]", note)
    await bob.page.click("form.act button")


async def test_an_open_page_says_what_is_away_and_recovers_by_itself(world: World, browser: Browser) -> None:
    async with open_console(world, app=app) as site, window(browser, site) as ann:
        await ann.page.goto("/list")
        await ann.shows("live")
        await asyncio.to_thread(world.postgres.stop)
        try:
            await ann.shows("the database is away since")
            async with window(browser, site, "bob") as bob:
                await bob.page.goto("/list")
                assert "The database does not answer" in await bob.text()
        finally:
            await world.servers_are_back()
        await world.db.execute("select perdure.start('rest', 'new', '{}')")
        await ann.shows("rest/new")
        await ann.shows("live")
        await ann.page.context.set_offline(True)
        await site.console.live.close()
        await ann.shows("connection lost since")
        await ann.page.context.set_offline(False)
        await ann.shows("live")
