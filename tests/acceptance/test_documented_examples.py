"""The lifecycles of docs/examples.md are as short as the page says, typed, and hold whatever dies."""

from __future__ import annotations

import asyncio
import re
import sys
import types
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import asyncpg
import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from perdure import Attempt, Entity, NotDone, Refused
from perdure.contracts import Key
from perdure.contracts.attempt import boot_clock
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from perdure.testing import START
from perdure.testing.exploring.authors import of_lifecycle
from perdure.testing.exploring.scenario import Event, Scenario
from perdure.testing.exploring.scenario_end import end_of
from tests.nested import outside_pytest

PAGE = Path(__file__).parents[2] / "docs" / "examples.md"
FILES = dict(re.findall(r"^<!-- file: ([\w.]+) -->\n```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))


async def _run(folder: Path, *arguments: str, **environment: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *arguments),
        cwd=folder,
        env={**outside_pytest(), **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output = (await process.communicate())[0].decode()
    return process.returncode, output


def _order(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    order = types.ModuleType("order")
    monkeypatch.setitem(sys.modules, "order", order)  # type hints are looked up there
    exec(FILES["order.py"], order.__dict__)
    return order


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, code in FILES.items():
        (tmp_path / name).write_text(code)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    return tmp_path


@pytest.mark.parametrize(("name", "most"), [("comments.py", 45), ("order.py", 110)])
def test_a_small_lifecycle_is_small(name: str, most: int) -> None:
    assert len(FILES[name].splitlines()) <= most


async def test_documented_examples_pass_mypy_strict(folder: Path) -> None:
    status, output = await _run(folder, "mypy", "--strict", "order.py", "comments.py")
    assert status == 0, output


def test_a_cancel_after_a_restore_pays_back_what_was_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    order = _order(monkeypatch)
    given = order.Order(number=1, cents=500, item="book", reserve_by=START + timedelta(hours=1))
    receipts = {order.charge: "payment-1", order.reserve: "reservation-1", order.refund: "refund-1"}
    scenario = Scenario(
        seed=1,
        given=given,
        calls={"reserve": ["not done"] * 60},
        events=(Event(20.0, "restore", 2.0), Event(60.0, "cancel")),
        builds=(0,),
    )
    explorer = of_lifecycle(order.OrderLifecycle, given, receipts, [], [order.charge, order.refund])
    end = end_of(explorer.world(scenario), Entity("order", "1"))
    assert (end.state, end.done(order.charge), end.done(order.refund)) == (order.Stage.CANCELLED, 1, 1)


async def test_tests_of_documented_examples_pass(
    postgres: PostgresServer, temporal: TemporalServer, database: str, folder: Path
) -> None:
    shop = await asyncpg.connect(postgres.dsn(database))
    await shop.execute("create table orders (id bigint primary key, stage text)")
    await shop.close()
    status, output = await _run(
        folder,
        *("pytest", "-q", "-p", "no:cacheprovider", "test_examples.py"),
        PERDURE_DATABASE_URL=postgres.dsn(database),
        TEMPORAL_ADDRESS=temporal.address,
    )
    assert status == 0, output
    assert "6 passed" in output


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        *((status, NotDone) for status in (401, 403, 429, 503)),
        *((status, Refused) for status in (402, 410)),
        *((status, aiohttp.ClientResponseError) for status in (409, 422, 500)),
    ],
)
async def test_a_request_of_an_order_sorts_the_answers(
    monkeypatch: pytest.MonkeyPatch, status: int, outcome: type[Exception]
) -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(status=status)

    order = _order(monkeypatch)
    async with RawTestServer(answer) as server:
        monkeypatch.setenv("SHOP_API", str(server.make_url("/")))
        attempt = Attempt(Key.of(Entity("order", "17"), "charge"), 1, datetime.now(UTC), boot_clock() + 60)
        with pytest.raises(outcome):
            await order.post("/charges", {"order": 17}, attempt)
