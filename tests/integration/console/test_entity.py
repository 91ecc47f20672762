"""The page of an entity shows the way it took and everything that happened; payloads only to who may see them and asks,
which is on record."""

from __future__ import annotations

import pytest

from tests.apps.contracts import Booking
from tests.apps.talking import Look, Ring, app
from tests.integration.console.browsing import open_console, readable
from tests.integration.operations.acts import LOST, delivered, parked, record
from tests.integration.operations.refused_row import refuse_state
from tests.world import World

pytestmark = pytest.mark.world(app)


async def test_it_shows_the_way_it_took_attempts_look_ups_and_who_has_the_next_step(world: World) -> None:
    world.counterparty.replies_to = {"a": [LOST], "b": [LOST]}
    async with world.worker(app), open_console(world, app=app) as site:
        await world.client.start(Look, "a", Booking())
        await world.client.start(Ring, "b", Booking())
        await world.ended("look", "a")
        await parked(world)
        await delivered(world)
        browser = site.browser()
        page = await browser.get("/entity/look", id="a")
        text = readable(page)
        for shown in ("done Finished: it ended as done", "do-look: attempt 1", "do-look: look-up 1", "found by the"):
            assert shown in text, text
        assert "States: starting → doing → done; now done" in page
        page = await browser.get("/entity/ring", id="b")
        assert "Waits for a person: do-ring is in doubt" in readable(page)
        assert "Settle…" not in readable(page), "who may only look is offered no act"
        assert f"{world.scope}:ring/b" in readable(page)
        offered = readable(await site.browser(roles="settle:ring").get("/entity/ring", id="b"))
        assert "Settle… Cancel…" in offered
        assert "What can't be done now" in offered
        await browser.get("/entity/ring", 404, id="nobody")
        unknown = readable(await browser.get("/entity/rng", 400, id="a"))
        assert "no lifecycle is named 'rng'; did you mean 'ring'?" in unknown


async def test_a_row_of_the_app_that_refuses_the_state_is_named_with_the_reason(world: World) -> None:
    await refuse_state(world, "no-number")
    async with open_console(world, app=app) as site:
        page = readable(await site.browser().get("/entity/lookup", id="no-number"))
        assert "The row of public.numbered does not show this state, 1 try: InvalidTextRepresentationError" in page
        page = readable(await site.browser().get("/"))
        assert "public.numbered can't show the state of lookup/no-number: InvalidTextRepresentationError" in page


async def test_payloads_are_shown_to_who_may_see_them_and_that_is_on_record_first(world: World) -> None:
    await world.db.execute("""select perdure.start('ring', 'a', '{"secret": "zebra"}')""")
    async with open_console(world, app=app) as site:
        eve, ann = site.browser("eve", "administer"), site.browser("ann", "payloads:ring")
        page = await eve.get("/entity/ring", id="a")
        assert "zebra" not in page
        assert "you need the role payloads" in readable(page)
        assert "zebra" not in await ann.get("/entity/ring", id="a")
        form = await ann.form("/entity/ring?id=a", "/entity/ring/payloads")
        assert (await eve.http.post("/entity/ring/payloads", data=form)).status_code == 403
        assert await record(world, "ring", "a") == []
        shown = await ann.send("/entity/ring?id=a", "/entity/ring/payloads", note="ticket 7")
        assert "&#34;zebra&#34;" in shown.text
        assert shown.url.query == b"", "no address holds a payload"
        assert await record(world, "ring", "a") == [("starting", "ann", "payloads shown: ticket 7")]
        limited = await site.browser("bob", "payloads:rest,look").http.post("/entity/ring/payloads", data=form)
        assert limited.status_code == 403


async def test_payloads_are_shown_and_a_cancel_is_sent_of_a_lifecycle_that_no_code_declares_any_more(
    world: World,
) -> None:
    await world.db.execute("select perdure.start('renamed-since', 'a', '{\"x\": 1}')")
    async with open_console(world, app=app) as site:
        ann, entity = site.browser("ann", "payloads,settle"), "lifecycle=renamed-since&id=a"
        shown = await ann.send("/entity/renamed-since?id=a", "/entity/renamed-since/payloads", note="why")
        assert shown.status_code == 200, readable(shown.text)
        sent = await ann.send(f"/act/cancel?{entity}", "/act/cancel", note="gone")
        assert sent.status_code == 200, readable(sent.text)
    assert await world.db.fetchval("select count(*) from perdure.message where kind = 'cancel'") == 1
