"""Effects in ordinary Temporal workflows: once at the other side, whatever is killed, and told where nobody knows."""

from __future__ import annotations

import asyncio
import importlib
import re
import secrets
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from temporalio import activity
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from perdure import Attempt, Effect, Escalate, Repeat, effect
from perdure.errors import DeclarationError
from perdure.servers.temporal import TemporalServer
from perdure.temporal import EffectsPlugin
from perdure.testing import workflow_crash_points
from perdure.testing.crashing import CrashPointsFailed
from tests.apps import transfers
from tests.apps.transfers import Careless, Deposit, DepositSoon, Letter, Plain, Twice, Withdraw
from tests.deadline import in_time, until

PAGE = Path(__file__).parents[3] / "docs" / "start" / "temporal.md"
WORKER = "tests.apps.transfers:make"


class Bank:
    """The other side. It knows what it has paid, by key, but honours no key: it pays as often as it is asked to."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.paid: list[str] = []
        self.keys: list[str] = []
        self.held = asyncio.Event()
        self.paid_at = 0.0
        self.url = ""

    async def pay(self, request: web.Request) -> web.Response:
        given = await request.json()
        key, fault = request.match_info["key"], given.get("fault", "")
        self.calls[key] += 1
        first = self.calls[key] == 1
        match fault:
            case "busy" if first:
                return web.Response(status=503)
            case "no funds":
                return web.Response(status=402)
            case "lost, then busy" if not first and asyncio.get_running_loop().time() < self.paid_at + 8:
                return web.Response(status=503)
            case "lost before" if first:
                assert request.transport is not None
                request.transport.close()
                return web.Response()
        self.paid.append(key)
        self.paid_at = asyncio.get_running_loop().time()
        self.keys.append(given.get("key", key))
        if fault in ("lost after", "lost, then busy") and first:
            assert request.transport is not None
            request.transport.close()
        if fault == "slow":
            await self.held.wait()
        return web.Response(text=f"receipt {key[:4]}")

    def paid_for(self, workflow_id: str) -> int:
        """How often it has paid for a workflow."""
        return sum(f"/{workflow_id}~" in key for key in self.keys)

    async def find(self, request: web.Request) -> web.Response:
        key = request.match_info["key"]
        return web.Response(text=f"found {key[:4]}") if key in self.paid else web.Response(status=404)


@pytest.fixture
async def bank(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bank]:
    made, app = Bank(), web.Application()
    app.add_routes([web.post("/{key}", made.pay), web.get("/{key}", made.find)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    monkeypatch.setenv("BANK_URL", made.url)
    yield made
    made.held.set()
    await runner.cleanup()


async def started(temporal: TemporalServer, run: Any, **given: object) -> tuple[Client, WorkflowHandle[Any, Any]]:
    client = await Client.connect(temporal.address)
    name = f"transfer-{secrets.token_hex(4)}"
    return client, await client.start_workflow(run, {"cents": 100, **given}, id=name, task_queue=name)


async def result(temporal: TemporalServer, run: Any, **given: object) -> str:
    client, handle = await started(temporal, run, **given)
    async with transfers.make(client, handle.id):
        return str(await in_time(handle.result()))


@pytest.mark.parametrize("fault", ["", "busy", "lost before", "lost after"])
async def test_a_withdrawal_happens_once_whatever_the_bank_does(
    temporal: TemporalServer, bank: Bank, fault: str
) -> None:
    received = await result(temporal, Withdraw.run, fault=fault)
    assert received.startswith("found" if fault == "lost after" else "receipt")
    assert len(bank.paid) == 1


async def test_a_repeat_within_the_window_has_the_same_key(temporal: TemporalServer, bank: Bank) -> None:
    assert (await result(temporal, Deposit.run, fault="lost after")).startswith("receipt")
    assert list(bank.calls.values()) == [2]


async def test_attempts_that_are_not_made_end_neither_a_doubt_nor_its_window(
    temporal: TemporalServer, bank: Bank
) -> None:
    """The bank is busy for longer than the window lasts."""
    with pytest.raises(WorkflowFailureError) as failed:
        await result(temporal, DepositSoon.run, fault="lost, then busy")
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == "EffectInDoubt"
    assert len(bank.paid) == 1


class Held(Interceptor):
    """Holds the first order of a withdrawal, as a worker does that freezes once it has received the order."""

    def __init__(self) -> None:
        self.holds = False
        self.thawed, self.ended = asyncio.Event(), asyncio.Event()

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Holding(next, self)


class _Holding(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, held: Held) -> None:
        super().__init__(next)
        self._held = held

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        held = self._held
        if held.holds or activity.info().activity_type != "withdraw":
            return await super().execute_activity(input)
        held.holds = True
        while not held.thawed.is_set():
            with suppress(asyncio.CancelledError):  # a frozen worker does not notice that its time is over
                await held.thawed.wait()
        try:
            return await super().execute_activity(input)
        finally:
            held.ended.set()


@pytest.mark.parametrize("answers", [True, False])
async def test_an_order_that_the_workflow_has_given_up_does_not_begin(
    temporal: TemporalServer, bank: Bank, answers: bool
) -> None:
    held = Held()
    client, handle = await started(temporal, Withdraw.run)
    async with transfers.make(client, handle.id, held):
        assert (await in_time(handle.result())).startswith("receipt")
        if not answers:
            temporal.pause()
        held.thawed.set()
        try:
            await in_time(held.ended.wait())
        finally:
            temporal.resume()
    assert len(bank.paid) == 1


async def test_a_refusal_fails_the_workflow_with_its_reason(temporal: TemporalServer, bank: Bank) -> None:
    with pytest.raises(WorkflowFailureError) as failed:
        await result(temporal, Withdraw.run, fault="no funds")
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == "EffectNotPerformed"
    assert failed.value.cause.message == "withdraw was refused: no funds"
    assert bank.paid == []


@pytest.mark.parametrize("fault", ["lost before", "lost after"])
async def test_a_doubt_without_a_look_up_is_raised_to_the_author(
    temporal: TemporalServer, bank: Bank, fault: str
) -> None:
    client, handle = await started(temporal, Letter.run, fault=fault)
    async with transfers.make(client, handle.id):
        await handle.signal(Letter.settle, "sent by hand")
        assert await in_time(handle.result()) == "sent by hand: send-letter"
    assert sum(bank.calls.values()) == 1


async def test_performances_with_different_suffixes_have_different_keys(temporal: TemporalServer, bank: Bank) -> None:
    await result(temporal, Twice.run)
    assert len(set(bank.paid)) == len(bank.paid) == 2


async def test_arguments_that_make_no_key_of_their_own_are_refused_before_a_call(
    temporal: TemporalServer, bank: Bank
) -> None:
    refused = (await result(temporal, Careless.run)).splitlines()
    wrong = [
        ": deposit: the suffix '' is empty",
        ": deposit: the suffix 0 is of type int",
        ": deposit: the key '' is empty",
        "is no time with a time zone",
        "deposit: the input does not fit",
    ]
    assert [part in each for part, each in zip(wrong, refused, strict=True)] == [True] * len(wrong)
    assert bank.paid == []


async def test_a_cancellation_waits_until_it_is_known_what_happened(temporal: TemporalServer, bank: Bank) -> None:
    client, handle = await started(temporal, Withdraw.run, fault="slow")
    async with transfers.make(client, handle.id):
        await until(lambda: bank.paid, "the withdrawal")
        await handle.cancel()
        with pytest.raises(WorkflowFailureError) as failed:
            await in_time(handle.result())
        assert isinstance(failed.value.cause, CancelledError)
    assert len(bank.paid) == 1
    looked_up = [
        event for event in (await handle.fetch_history()).events if b"find-withdrawal" in event.SerializeToString()
    ]
    assert looked_up


async def test_whatever_worker_is_killed_the_bank_pays_once(temporal: TemporalServer, bank: Bank) -> None:
    seen = await workflow_crash_points(
        Withdraw.run,
        {"cents": 100},
        worker=WORKER,
        happened=bank.paid_for,
        temporal=temporal.address,
        environment={"BANK_URL": bank.url, "BANK_TIMEOUT": "3"},
    )
    assert "after the call of withdraw" in seen[0].places
    assert len(seen) == len(seen[0].places) + 1
    assert [each.happened for each in seen] == [1] * len(seen)


async def test_an_ordinary_activity_that_is_retried_is_caught_paying_twice(
    temporal: TemporalServer, bank: Bank
) -> None:
    with pytest.raises(CrashPointsFailed, match=r"after the activity pay_plainly(.|\n)*happened (?!1 )\d+ times"):
        await workflow_crash_points(
            Plain.run,
            {"cents": 100},
            worker=WORKER,
            happened=bank.paid_for,
            temporal=temporal.address,
            environment={"BANK_URL": bank.url, "BANK_TIMEOUT": "3"},
        )


async def test_the_example_of_the_page_runs(
    temporal: TemporalServer, bank: Bank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in re.findall(r"^<!-- file: (\S+) -->\n```\w*\n(.*?)^```$", PAGE.read_text(), re.M | re.S):
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    page = importlib.import_module("transfer")
    monkeypatch.setattr("bank.BANK", bank.url)
    client, name = await Client.connect(temporal.address), f"page-{secrets.token_hex(4)}"
    async with page.make(client, name):
        received = await in_time(client.execute_workflow(page.Transfer.run, 100, id=name, task_queue=name))
    assert received.startswith("receipt")
    assert len(bank.paid) == 1
    assert importlib.import_module("test_transfer").workflow_crash_points is workflow_crash_points
    for each in ("transfer", "bank", "test_transfer"):
        del sys.modules[each]


def test_an_effect_without_a_body_is_refused() -> None:
    bare = Effect[str, str]("bare", timeout=timedelta(seconds=1), doubt=Repeat())
    with pytest.raises(DeclarationError, match="bare has no body"):
        EffectsPlugin(bare)


def test_an_inline_effect_that_may_not_be_repeated_is_refused() -> None:
    """Its local activity leaves no trace where the workflow task is lost."""

    async def body(given: str, attempt: Attempt) -> str:
        return given

    timeout = timedelta(seconds=1)
    with pytest.raises(DeclarationError, match="once: inline=True needs a lifecycle"):
        EffectsPlugin(effect(name="once", timeout=timeout, doubt=Escalate(), inline=True)(body))
    EffectsPlugin(effect(name="often", timeout=timeout, doubt=Repeat(), inline=True)(body))
