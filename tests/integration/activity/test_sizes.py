"""What is too large for Temporal is refused before anything is done; a receipt, which comes afterwards, loses nothing.

Without that the server ends the workflow, or its tasks fail for ever.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import asyncpg
import pytest
from pydantic import SecretStr
from temporalio.client import WorkflowExecutionStatus, WorkflowUpdateFailedError

from perdure import Client
from perdure._wire.requests import Resolution
from perdure.contracts import EffectStatus
from perdure.contracts.sizes import DEEPEST, LARGEST, LARGEST_RECEIPT
from perdure.errors import InvalidInput
from tests.apps.deep import nested
from tests.apps.large import CALLS, Wanted, app, smaller
from tests.world import World

KEYS = "a:" + base64.b64encode(bytes(32)).decode()
AROUND = len('{"number":7,"text":""}')
SLOTS = {"regular": "scan", "inline": "scan-inline", "look-up": "scan-asked"}


@pytest.fixture(autouse=True)
def nothing_called() -> None:
    """Each test counts for itself."""
    CALLS.clear()


async def start(world: World, what: str, size: int) -> None:
    async with Client.connect(world.config, app=app) as client:
        await client.start("large", "a", Wanted(what=what, size=size))


async def attention(world: World, words: str) -> str:
    """Wait until a person is wanted for something with these words; returns all of them."""

    async def wanted() -> str | None:
        found = await world.db.fetchval("select attention from perdure.entity where id = 'a'")
        return found if found and words in found else None

    return str(await world.until(wanted, words))


async def runs(world: World) -> bool:
    return (await world.handle("large", "a").describe()).status is WorkflowExecutionStatus.RUNNING


@pytest.mark.parametrize("size", [LARGEST_RECEIPT, 2_200_000, 5_000_000])
@pytest.mark.parametrize("way", ["regular", "inline", "look-up"])
async def test_a_receipt_that_is_too_large_is_on_record_and_goes_on_after_a_deploy(
    world: World, way: str, size: int
) -> None:
    await start(world, way, size)
    async with world.worker(app):
        said = await attention(world, "does not fit into Temporal")
        assert said.startswith(f"{SLOTS[way]} is done, and its receipt of {size + AROUND} bytes does not fit")
        assert f"which takes {LARGEST_RECEIPT}: deploy a receipt type without the large part" in said
        (effect,) = await world.db.fetch("select status, length(receipt->>'text') as kept from perdure.effect")
        assert tuple(effect) == ("done", size)
        assert await runs(world)
    calls = CALLS.copy()  # one, or more where PostgreSQL took the outcome too slowly
    async with world.worker(smaller):
        await world.client.retry("large", "a", by="ann")
        assert await world.ended("large", "a") == "over"
    assert calls == CALLS
    assert len(calls) == 1


async def test_a_body_that_returns_what_can_not_be_kept_has_done_its_work(world: World) -> None:
    await start(world, "unfit", 0)
    async with world.worker(app):
        await attention(world, "the receipt of scan can't be read")
        (effect,) = await world.db.fetch("select status, receipt, why from perdure.effect")
        assert (effect["status"], effect["receipt"]) == ("done", None)
        assert "done; what the body returned can't be kept: PydanticSerializationError" in effect["why"]
    assert list(CALLS.values()) == [1]


@pytest.mark.parametrize("keys", [None, KEYS], ids=["plain", "encrypted"])
@pytest.mark.parametrize("way", ["regular", "inline", "look-up", "step"])
async def test_values_of_the_largest_allowed_size_are_accepted(world: World, way: str, keys: str | None) -> None:
    await start(world, way, LARGEST_RECEIPT - AROUND)
    async with world.worker(app, keys=keys and SecretStr(keys)):
        assert await world.ended("large", "a") == "over"


async def test_a_snapshot_that_is_too_large_fails_the_task_until_a_deploy_and_writes_nothing(world: World) -> None:
    await start(world, "snapshot", 2_200_000)
    async with world.worker(app):
        said = await attention(world, "TooLarge: large/a: what it writes has ")
        assert f"and Temporal accepts {LARGEST} (bytes by part: snapshot 2200011)" in said
        assert await world.states("large", "a") == ["starting"]
        assert await runs(world)
    async with world.worker(smaller):
        assert await world.ended("large", "a") == "over"


async def test_a_step_that_returns_too_much_is_taken_again_until_a_deploy(world: World) -> None:
    await start(world, "step", 2_200_000)

    async def failed() -> bool:
        described = (await world.handle("large", "a").describe()).raw_description
        text = str([each.last_failure.message for each in described.pending_activities])
        return f"what it returned has 2200022 bytes, and may have {LARGEST_RECEIPT}" in text

    async with world.worker(app):
        waits = "select not exists (select from perdure.outbox)"
        await world.until(lambda: world.db.fetchval(waits), "the start is delivered")
        await world.until(failed, "the step fails")
    async with world.worker(smaller):
        assert await world.ended("large", "a") == "over"


async def test_a_reason_that_is_too_long_is_cut(world: World) -> None:
    await start(world, "why", 5_000_000)
    async with world.worker(app):
        assert await world.ended("large", "a") == "over"
    assert await world.db.fetchval("select max(length(why)) from perdure.transition") == 2000
    assert await world.db.fetchval("select length(why) from perdure.effect") == 2000


async def test_a_resolution_with_a_receipt_that_is_too_large_or_nested_too_deep_is_refused(world: World) -> None:
    await start(world, "resolve", 0)
    async with world.worker(app):
        await attention(world, "scan-parked is in doubt")
        for size in (LARGEST_RECEIPT, 5_000_000):
            receipt = {"number": 7, "text": "x" * size}
            with pytest.raises(
                InvalidInput, match=rf"the receipt has {size + 22} bytes, and may have {LARGEST_RECEIPT}"
            ):
                await world.client.resolve("large", "a", EffectStatus.DONE, by="ann", note="", receipt=receipt)
        said = Resolution(by="ann", outcome=EffectStatus.DONE, receipt={"number": 7, "text": "x" * LARGEST_RECEIPT})
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await world.update("large", "a", "resolve", said)
        assert "bytes, and may have" in str(refused.value.cause)
        deep = {"number": 7, "text": "x", "more": nested(DEEPEST)}
        with pytest.raises(InvalidInput, match="the receipt is nested 100 levels deep or deeper"):
            await world.client.resolve("large", "a", EffectStatus.DONE, by="ann", note="", receipt=deep)
        said = Resolution(by="ann", outcome=EffectStatus.DONE, receipt=deep)
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await world.update("large", "a", "resolve", said)
        assert "the receipt is nested 100 levels deep or deeper" in str(refused.value.cause)
        receipt = {"number": 7, "text": "x"}
        assert await world.client.resolve("large", "a", EffectStatus.DONE, by="ann", note="", receipt=receipt)
        assert await world.ended("large", "a") == "over"


@pytest.mark.parametrize("text", ["x" * 2_000_000, "\x01" * 400_000], ids=["plain", "escaped"])
async def test_an_input_or_a_payload_that_is_too_large_is_refused_where_it_is_given(world: World, text: str) -> None:
    given = json.dumps({"text": text})
    await start(world, "regular", 1)
    for sql in (
        "select perdure.start('large', 'b', $1::jsonb)",
        "select perdure.signal('large', 'a', 'hear', $1::jsonb)",
    ):
        with pytest.raises(asyncpg.ProgramLimitExceededError, match="bytes are too many"):
            await world.db.execute(sql, given)
    client: Any = Client()
    async with world.db.transaction():
        for verb, more in (("start", ()), ("signal", ("hear",))):
            with pytest.raises(InvalidInput, match=rf"bytes, and Temporal accepts {LARGEST}: keep the rest in a table"):
                await getattr(client, verb)("large", "b", *more, {"text": text}, connection=world.db)
        assert await world.db.fetchval("select 1") == 1


async def test_an_input_or_a_payload_that_is_nested_too_deep_is_refused_in_sql(world: World) -> None:
    await start(world, "regular", 1)
    for sql in (
        "select perdure.start('large', 'b', $1::jsonb)",
        "select perdure.signal('large', 'a', 'hear', $1::jsonb)",
    ):
        with pytest.raises(asyncpg.ProgramLimitExceededError, match="the payload is nested 100 levels deep or deeper"):
            await world.db.execute(sql, "[" * DEEPEST + "1" + "]" * DEEPEST)
        await world.db.execute(sql, "[" * (DEEPEST - 1) + "1" + "]" * (DEEPEST - 1))
