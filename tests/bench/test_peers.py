"""The comparison's judge, table, line count and outside server. `make bench-peers` runs the tools themselves."""

from __future__ import annotations

import asyncio
import datetime
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp
import pytest
import pytest_asyncio

from bench.marked import replaced
from bench.peers.judge import Judged, in_words, judge
from bench.peers.other_side import serve
from bench.peers.report import ROWS, Measured, as_json, cells, from_json, markdown
from bench.peers.rig import RULES, SCENARIOS
from bench.peers.tools import ROOT, TOOLS, Tool, lines_of_code
from perdure.servers.ports import free_port
from tests.deadline import DEADLINE

PAGE = (ROOT / "docs" / "comparison.md").read_text()
FINE = Judged(orders=5, ended=5, lost=0, reported=0, twice=0, unpaid=0, seconds=2.4)


def test_the_judge_counts_each_order_once() -> None:
    found = judge(range(1, 7), [1, 2, 2, 3, 6, 99], {1: 11.0, 2: 13.0, 5: 14.0}, {3, 1}, killed_at=10.0)
    assert found == Judged(orders=6, ended=3, lost=2, reported=1, twice=1, unpaid=1, seconds=3.0)


def test_nothing_that_ended_has_no_time() -> None:
    assert judge([1], [], {}, set(), 0.0).seconds is None


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (FINE, "once, 2 s"),
        (Judged(5, 5, 0, 0, 5, 0, 0.2), "5 charged twice, < 1 s"),
        (Judged(5, 0, 5, 0, 0, 0, None), "5 lost"),
        (Judged(5, 1, 2, 2, 0, 0, 7.0), "2 lost, 2 in doubt, reported, 7 s"),
    ],
)
def test_a_cell_has_the_bad_news_first(found: Judged, words: str) -> None:
    assert in_words(found) == words


def test_only_code_counts_as_lines() -> None:
    source = '''
"""Doc.

More.
"""

# why
X = """a
b"""  # text


def f() -> str:
    """Doc."""
    return (
        X
    )
'''
    assert lines_of_code(source) == 6


def test_each_tool_has_its_file() -> None:
    assert [tool.name for tool in TOOLS if tool.lines() < 10] == []


def test_a_tool_that_this_machine_lacks_says_so() -> None:
    absent = Tool("absent", "with_celery", "celery", ("Redis",), ("/nowhere/celery",))
    without_server = replace(absent, needs=("no-such-server",))
    assert [each.name for each in TOOLS if each.name == "Perdure" and each.missing()] == []
    assert absent.missing()
    assert "newer Python" in (without_server.missing() or "")


def test_each_kill_has_its_row() -> None:
    assert [(each.side, each.place) for each in SCENARIOS] == list(ROWS)


def test_the_page_takes_the_table() -> None:
    found = {
        "Perdure": Measured("1", 44, ("Temporal",), {SCENARIOS[0]: FINE}, {"worker": 1.0, "Temporal": 2.0}, 0.05),
        "Celery, defaults": Measured("5", 30, (), {}, {"worker": 1.0}, 0.01),
    }
    page = replaced(PAGE, "peers", markdown(found, 5, datetime.date(2026, 1, 2)))
    assert "| killed before the request | once, 2 s | - |" in page
    assert "| CPU s per 1,000 orders, all processes | 3 | 1 |" in page
    assert "Measured on 2026-01-02, 5 orders for each kill, with Perdure 1, Celery 5." in page
    assert "| killed before the request |" not in replaced(page, "peers", "")
    with pytest.raises(ValueError, match="no <!-- peers -->"):
        replaced("a page", "peers", "")


def test_results_are_read_again_as_they_were_written() -> None:
    found = {"Perdure": Measured("1", 44, ["Temporal"], {SCENARIOS[0]: FINE}, {"worker": 1.0}, 0.05)}
    assert from_json(json.loads(json.dumps(as_json(found)))) == found


def test_the_page_shows_what_the_bench_measures() -> None:
    table = PAGE.partition("<!-- peers -->")[2].partition("<!-- /peers -->")[0]
    shown = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("|")]
    assert [each for each in shown if each.strip("-")] == [row[0] for row in cells({}) if row[0]]


@pytest_asyncio.fixture
async def shop() -> AsyncIterator[aiohttp.ClientSession]:
    port = free_port()
    runner = await serve(port)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        yield session
    await runner.cleanup()


async def _charge(shop: aiohttp.ClientSession) -> str:
    async with shop.post("/charges", json={"order": 1}, headers={"Idempotency-Key": "a"}) as answer:
        return str((await answer.json())["id"])


async def _put(shop: aiohttp.ClientSession, path: str, body: object) -> None:
    async with shop.put(path, json=body) as answer:
        assert answer.status == 200


async def test_a_side_that_keeps_keys_charges_once(shop: aiohttp.ClientSession) -> None:
    await _put(shop, "/rules", RULES["keeps"])
    assert await _charge(shop) == await _charge(shop)
    async with shop.get("/charges/1") as answer:
        assert answer.status == 404


async def test_a_side_that_forgets_keys_charges_again_after_its_window(shop: aiohttp.ClientSession) -> None:
    await _put(shop, "/rules", {"window": 1.0, "lag": None})
    first = await _charge(shop)
    assert await _charge(shop) == first
    async with asyncio.timeout(DEADLINE):
        while await _charge(shop) == first:
            await asyncio.sleep(0.05)


async def test_a_side_with_a_look_up_shows_a_charge_late(shop: aiohttp.ClientSession) -> None:
    await _put(shop, "/rules", {"window": 0.0, "lag": 0.3})
    first = await _charge(shop)
    async with shop.get("/charges/1") as answer:
        assert answer.status == 404
    async with asyncio.timeout(DEADLINE):
        while True:
            async with shop.get("/charges/1") as answer:
                if answer.status == 200:
                    assert (await answer.json())["id"] == first
                    break
            await asyncio.sleep(0.05)
    assert await _charge(shop) != first


async def test_a_process_at_a_held_place_waits_until_it_is_released(shop: aiohttp.ClientSession) -> None:
    await _put(shop, "/rules", RULES["keeps"])
    await _put(shop, "/hold", {"place": "reply-held"})
    charging = asyncio.create_task(_charge(shop))
    async with asyncio.timeout(DEADLINE):
        record: dict[str, object] = {}
        while record.get("waiting") != 1:
            async with shop.get("/record") as answer:
                record = await answer.json()
    assert [(each["order"], each["key"]) for each in record["charges"]] == [(1, "a")]  # type: ignore[attr-defined]
    assert not charging.done()
    await _put(shop, "/hold", {"place": None})
    assert await charging == "charge-0"
