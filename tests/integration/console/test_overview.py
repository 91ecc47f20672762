"""The overview says in words what is wrong, the worst first, and stays up while Temporal or the database is away."""

from __future__ import annotations

import asyncio

import pytest

from perdure._operations.overview import read_overview
from perdure._operations.problems import problems
from tests.deadline import until
from tests.integration.console.browsing import Browser, open_console, readable
from tests.integration.operations.test_list import ENDED, ENTITIES
from tests.world import World

HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m=cmd|' /C calc'!A0"


async def all_is_well(browser: Browser) -> None:
    """Wait until the page has heard from everybody."""

    async def well() -> bool:
        return "Nothing is wrong" in readable(await browser.get("/"))

    await until(well, "nothing is wrong", every=0.2)


async def test_what_is_wrong_stands_first_in_words(world: World) -> None:
    async with open_console(world) as site:
        browser = site.browser()
        await all_is_well(browser)
        await world.db.execute(ENTITIES)
        await world.db.execute(ENDED)
        await world.db.execute("update perdure.entity set stuck_at = now() - interval '1 h' where id = '3'")

        async def shown() -> str:
            text = readable(await browser.get("/"))
            return text if "1 of order has been sending for longer than declared" in text else ""

        text = await until(shown, "the page shows what is new")
        wrong = text.index("1 entity waits for a person: send of order is in doubt, the oldest for")
        assert wrong < text.index("1 of order has been sending for longer than declared") < text.index("Lifecycles")
        assert "order sending 3" in text
        assert "parcel starting 1" in text


async def test_what_is_wrong_counts_each_entity_once_and_ages_what_waits_alone(world: World) -> None:
    """One entity with two doubts, one that was refused, and one that ended 90 days ago with a doubt."""
    await world.db.execute("""
        select perdure.start('order', id, '{}') from unnest('{two,refused}'::text[]) id;
        update perdure.entity set attention = 'send is in doubt: ?' where id = 'two';
        update perdure.entity set attention = 'charge was refused' where id = 'refused';
        insert into perdure.effect
            (key, lifecycle, id, generation, effect, token, status, digest, first_at, attempt_at, deadline)
            select id || effect, 'order', id, 0, effect, 't', 'in_doubt', 'd', now() - ago, now() - ago, now() - ago
            from (values ('two', 'send', '25 h'::interval), ('two', 'charge', '49 h'), ('ended', 'send', '90 d'))
                x (id, effect, ago)
    """)
    found = [each.sentence for each in problems(await read_overview(world.db), [])]
    assert found == [
        "1 entity waits for a person: charge of order is in doubt, the oldest for 2 d 1 h",
        "1 entity waits for a person: send of order is in doubt, the oldest for 1 d 1 h",
        "1 of order needs a person (starting)",
    ]


async def test_somebody_sees_the_lifecycles_and_tenants_of_their_roles_alone(world: World) -> None:
    await world.db.execute(ENTITIES)
    async with open_console(world) as site:
        text = readable(await site.browser("bob", "look:parcel").get("/"))
        assert "parcel starting 1" in text
        assert "order" not in text
        text = readable(await site.browser("eve", "look:order@t1").get("/"))
        assert "order sending 1" in text, "of the three that are sending, one is of that tenant"
        assert "parcel" not in text
        assert "Delivery" not in text


async def test_workers_of_another_scope_are_not_shown_as_this_databases(world: World) -> None:
    await world.db.execute("update perdure.database set mark = 'm', scope = 'clinic', namespace = 'default'")
    async with open_console(world) as site:
        browser = site.browser()

        async def shown() -> bool:
            text = readable(await browser.get("/workers"))
            return "this database works with PERDURE_SCOPE='clinic', and here is PERDURE_SCOPE=" in text

        await until(shown, "the page says that this is another scope")
        assert f"perdure:{world.scope} workflow no answer" in readable(await browser.get("/workers"))


async def test_it_stays_up_and_says_so_while_the_servers_are_away(world: World) -> None:
    world.config = world.config.model_copy(update={"connections": 2})
    async with open_console(world) as site:
        browser = site.browser()
        await all_is_well(browser)
        await asyncio.to_thread(world.temporal.stop)
        try:

            async def says_so() -> bool:
                return "Temporal does not answer" in readable(await browser.get("/"))

            await until(says_so, "it says that Temporal is away", every=0.5)
        finally:
            await asyncio.to_thread(world.temporal.start)
        await asyncio.to_thread(world.postgres.stop)
        try:

            async def out_of_date() -> bool:
                return "This is out of date: PostgreSQL did not answer" in readable(await browser.get("/"))

            await until(out_of_date, "it says that the database is away", every=0.5)
        finally:
            await world.servers_are_back()

        async def back() -> bool:
            return "out of date" not in await browser.get("/")

        await until(back, "it goes on by itself", every=0.5)


async def test_what_comes_from_data_is_shown_as_text(world: World) -> None:
    await world.db.execute("insert into perdure.reconciliation (asked_by) values ($1)", HOSTILE.replace("\x1b", ""))
    async with open_console(world) as site:
        page = await site.browser(person="<b>ann", roles="look").get("/")
        assert "<script>alert" not in page
        assert "<b>ann" not in page
        assert "\u202e" not in page
        assert "&lt;script&gt;alert(1)" in page


async def test_somebody_with_some_roles_is_told_what_is_wrong_within_these(world: World) -> None:
    await world.db.execute(ENTITIES)
    await world.db.execute(
        "insert into perdure.finding (kind, lifecycle, id, what, run) values ('lost', 'order', '3', 'x', 1);"
        "insert into perdure.rejected (seq, lifecycle, id, generation, kind, body, reason)"
        " values (1, 'order', '5', 0, 'start', '{}', 'x')"
    )
    async with open_console(world) as site:
        await all_is_well(site.browser("bob", "look:parcel"))
        text = readable(await site.browser("eve", "look:order@t1").get("/"))
        assert "1 of order has been sending for longer than declared" in text
        assert "1 start or message could not be delivered" in text
        assert "1 finding is left for a person: lost" in text
        text = readable(await site.browser("joe", "look:order@t0").get("/"))
        assert "1 entity waits for a person: send of order is in doubt" in text
        assert "longer than declared" not in text
        assert "could not be delivered" not in text
        assert "left for a person" not in text


async def test_somebody_with_some_roles_is_told_that_temporal_is_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:9")
    async with open_console(world) as site:
        browser = site.browser("bob", "look:parcel")

        async def says_so() -> bool:
            return "Temporal does not answer" in readable(await browser.get("/"))

        await until(says_so, "it says that Temporal is away", every=0.2)
