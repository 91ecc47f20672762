"""The list is its address: filters, pages by keyset, files without formulae; the search finds what somebody has."""

from __future__ import annotations

import csv
import io
import json
import re
from html import unescape
from typing import Any
from urllib.parse import unquote

import pytest

from perdure.console import exporting
from perdure.console.pages import listing
from perdure.contracts.keys import Key
from tests.integration.console.browsing import Browser, open_console, readable
from tests.integration.operations.test_list import ENDED, ENTITIES
from tests.world import World


async def ids(browser: Browser, path: str) -> list[str]:
    """The ids on all pages of a list, in their order."""
    found: list[str] = []
    while path:
        page = await browser.get(path)
        found += re.findall(r'<td>\s*<a class="id" href="[^"]*id=([^"]+)"', page)
        after = re.search(r'href="([^"]*after=[^"]+)">Next', page)
        path = after[1].replace("&amp;", "&") if after else ""
    return found


async def test_filters_are_the_address_and_pages_follow_by_keyset(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "ROWS", 2)
    await world.db.execute(ENTITIES)
    await world.db.execute(ENDED)
    async with open_console(world) as site:
        ann = site.browser()
        for path, expected in (
            ("/list?lifecycle=order", "1 2 3 4 5 6"),
            ("/list?lifecycle=order&state=sending", "4 3 2"),
            ("/list?in_doubt=on", "3 4"),
            ("/list?attention=on", "4"),
            ("/list?older_than=150m", "3 4"),
            ("/list?tenant=t1&condition=not-picked-up", "1"),
            ("/list?finished=on&in_doubt=on", "e4"),
        ):
            assert await ids(ann, path) == expected.split(), path
        assert await ids(site.browser("bob", "look:parcel"), "/list") == ["p"]
        assert await ids(site.browser("eve", "look@t1"), "/list?lifecycle=order") == ["1", "3", "5"]
        assert "did you mean" in await ann.get("/list?lifecycle=ordre", 400)
        for path in ("/list?condition=x", "/list?older_than=10", "/list?finished=on&since=yore", "/export?format=x"):
            await ann.get(path, 400)


@pytest.mark.parametrize(
    ("path", "preview"),
    [
        ("/list?finished=on&lifecycle=order&in_doubt=on", "Restart 1 entity"),
        ("/list?finished=on&lifecycle=order", "Restart 4 entities"),
        ("/list?lifecycle=order&state=sending", "Retry now 3 entities"),
        ("/list?in_doubt=on&unknown=on", "Retry now 2 entities"),
    ],
)
async def test_all_that_match_are_those_that_the_list_shows(world: World, path: str, preview: str) -> None:
    await world.db.execute(ENTITIES)
    await world.db.execute(ENDED)
    async with open_console(world) as site:
        ann = site.browser("ann", "bulk")
        shown = await ids(ann, path)
        assert str(len(shown)) in preview
        assert preview in readable(await ann.get(acts(await ann.get(path))[0]))


async def test_no_act_on_all_is_offered_where_the_list_has_no_filter_or_shows_one_id(world: World) -> None:
    await world.db.execute(ENTITIES)
    await world.db.execute(ENDED)
    async with open_console(world) as site:
        ann = site.browser("ann", "bulk")
        for path in ("/list?id=3", "/list?lifecycle=order&id=3", "/list", "/list?finished=on"):
            assert acts(await ann.get(path)) == [], path
        assert await ids(ann, "/list?id=3") == ["3"]


def acts(page: str) -> list[str]:
    """Where the links of a page to acts lead."""
    return [each for each in map(unescape, re.findall(r'href="([^"]+)"', page)) if each.startswith("/act/")]


async def test_a_file_holds_what_the_list_shows_and_no_cell_begins_as_a_formula(world: World) -> None:
    await world.db.execute(ENTITIES)
    await world.db.execute("select perdure.start('order', '=cmd|''/C calc''!A0', '{}', tenant => '@SUM(A1)')")
    await world.db.execute("update perdure.entity set attention = E'-2+3\\nnext' where id = '5'")
    async with open_console(world) as site:
        ann = site.browser("ann", "look:order")
        answer = await ann.http.get("/export", params={"format": "csv"})
        assert answer.headers["content-disposition"] == 'attachment; filename="perdure-open.csv"'
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        assert {row["lifecycle"] for row in rows} == {"order"}
        assert len(rows) == 7
        assert {cell for row in rows for cell in row.values() if cell.startswith(("=", "+", "-", "@"))} == set()
        assert "'=cmd|'/C calc'!A0" in {row["id"] for row in rows}
        lines = (await ann.http.get("/export", params={"format": "json", "state": "sending"})).text.splitlines()
        assert [json.loads(line)["id"] for line in lines] == ["2", "3", "4"]


async def test_a_file_that_is_not_complete_does_not_look_complete(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.db.execute("select perdure.start('order', n::text, '{}') from generate_series(1, 1200) n")
    async with open_console(world) as site:
        ann, rows, calls = site.browser(), listing._rows, []
        whole = await ann.http.get("/export?lifecycle=order")
        assert (len(whole.text.splitlines()), int(whole.headers["content-length"])) == (1201, len(whole.content))
        for most, name in ((1200, "perdure-open.csv"), (1000, "perdure-open-first-1000-of-more.csv")):
            monkeypatch.setattr(exporting, "MOST", most)
            limited = await ann.http.get("/export?lifecycle=order")
            assert limited.headers["content-disposition"] == f'attachment; filename="{name}"'
            assert len(limited.text.splitlines()) == 1 + most

        async def killed(view: Any, connection: Any, after: Any, limit: int) -> Any:
            calls.append(after)
            if len(calls) == 2:
                pid = await connection.fetchval("select pg_backend_pid()")
                await world.db.execute("select pg_terminate_backend($1)", pid)
            return await rows(view, connection, after, limit)

        monkeypatch.setattr(listing, "_rows", killed)
        cut = await ann.http.get("/export?lifecycle=order")
        assert (cut.status_code, "content-disposition" in cut.headers) == (503, False)


async def test_an_id_a_key_or_a_workflow_id_leads_to_the_entity(world: World) -> None:
    await world.db.execute(ENTITIES)
    async with open_console(world) as site:
        ann = site.browser()
        for text in ("4", "order/4", f"{world.scope}:order/4", "k4", Key("k4").token, " 4 "):
            answer = await ann.http.get("/search", params={"q": text})
            assert answer.headers.get("location") == "/entity/order?id=4", text
        await world.db.execute("select perdure.start('parcel', '44', '{}')")
        await world.db.execute("select perdure.start('parcel', '45', '{}')")
        assert "parcel/45" in readable(await site.browser("bob", "look:parcel").get("/search", q="4"))
        assert "Nothing that you may see has the id" in readable(await ann.get("/search", q="<b>nowhere"))
        assert "Nothing that you may see has the id" in readable(
            await site.browser("bob", "look:parcel").get("/search", q="k4")
        )


async def test_an_id_with_a_tilde_is_looked_for_as_it_is_before_its_end_counts_as_a_generation(world: World) -> None:
    for entity_id in ("ok3", "ok3~1", "~", "a~b"):
        await world.db.execute("select perdure.start('plain', $1, '{}')", entity_id)
    async with open_console(world) as site:
        ann = site.browser()
        for text, found in {
            "plain/ok3~1": "ok3~1",
            "plain/~": "~",
            "plain/a~b": "a~b",
            "plain/ok3~2": "ok3",
            "plain/ok3~1~4": "ok3~1",
            "plain/a~b~1": "a~b",
        }.items():
            answer = await ann.http.get("/search", params={"q": text})
            assert unquote(answer.headers.get("location", "")) == f"/entity/plain?id={found}", text
        assert "Nothing that you may see has the id" in readable(await ann.get("/search", q="plain/~1"))


async def test_a_search_finds_what_is_within_reach_behind_any_number_of_others(world: World) -> None:
    await world.db.execute(
        "select perdure.start(l, 'a' || n, '{}', tenant => case n when 95 then 'acme' else 'evil' end) "
        "from generate_series(10, 99) n, unnest('{order,parcel}'::text[]) l"
    )
    async with open_console(world) as site:
        text = readable(await site.browser("ann", "look:order@acme").get("/search", q="a"))
        assert "order/a95" in text
        assert "a94" not in text
        assert "parcel/a95" not in text
        assert "order/a10" in readable(await site.browser("bob").get("/search", q="a"))
