"""Signals and updates that arrive while a local activity is under way: they are heard, and nothing is done twice.

A signal then makes the whole workflow task run again, and the local activity with it; the fence has to hold.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.service import RPCError, RPCStatusCode

from tests.apps.contracts import Booking
from tests.apps.talking import LookInline, app
from tests.deadline import in_time
from tests.world import World

KIND = "look-inline"
KEY = f"{KIND}/a/do-{KIND}"
Hold = Callable[[World], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def _attempt_before_it_is_accepted(world: World) -> AsyncIterator[None]:
    world.counterparty.before_accepting.shut()
    await world.client.start(LookInline, "a", Booking())
    await world.counterparty.saw("do")
    yield
    world.counterparty.before_accepting.open()


@asynccontextmanager
async def _attempt_after_it_was_accepted(world: World) -> AsyncIterator[None]:
    world.counterparty.before_replying.shut()
    await world.client.start(LookInline, "a", Booking())
    await world.counterparty.has_accepted()
    yield
    world.counterparty.before_replying.open()


@asynccontextmanager
async def _look_up(world: World) -> AsyncIterator[None]:
    world.counterparty.replies.append({"accept": True, "close": True})
    world.counterparty.before_answering.shut()
    await world.client.start(LookInline, "a", Booking())
    await world.counterparty.saw("ask")
    yield
    world.counterparty.before_answering.open()


@asynccontextmanager
async def _the_last_write(world: World) -> AsyncIterator[None]:
    async with world.holding("perdure.finished"):
        await world.client.start(LookInline, "a", Booking())
        await world.held_up()
        yield


HOLDS: list[Hold] = [
    _attempt_before_it_is_accepted,
    _attempt_after_it_was_accepted,
    _look_up,
    _the_last_write,
]


@pytest.mark.parametrize("cached", [1000, 0])
@pytest.mark.parametrize("hold", HOLDS, ids=lambda hold: hold.__name__.strip("_"))
async def test_a_signal_during_a_local_activity_does_nothing_twice(world: World, hold: Hold, cached: int) -> None:
    async with world.worker(app, max_cached_workflows=cached):
        async with hold(world):
            await world.handle(KIND, "a").signal("hear", "hey")
        assert await world.ended(KIND, "a") == "done"
        await world.handle(KIND, "a").result()
        assert await _ran_again(world)
    await _was_done_once(world)


@pytest.mark.parametrize("hold", HOLDS, ids=lambda hold: hold.__name__.strip("_"))
async def test_an_update_during_a_local_activity_is_counted_or_told_that_it_is_too_late(
    world: World, hold: Hold
) -> None:
    async with world.worker(app):
        async with hold(world):
            said = asyncio.create_task(_say(world))
            await world.handle(KIND, "a").describe()  # another call to the server: the update is there by now
        assert await world.ended(KIND, "a") == "done"
        answer = await in_time(said)
    assert (answer, await _words(world)) in [("1", ["hey"]), ("too late", [])]
    await _was_done_once(world)


@pytest.mark.parametrize("hold", HOLDS, ids=lambda hold: hold.__name__.strip("_"))
async def test_a_cancel_during_a_local_activity_waits_for_it(world: World, hold: Hold) -> None:
    async with world.worker(app):
        async with hold(world):
            await world.handle(KIND, "a").cancel()
        assert await world.ended(KIND, "a") == "done"
        await world.handle(KIND, "a").result()
    await _was_done_once(world)


async def test_a_message_in_time_is_in_the_final_snapshot(world: World) -> None:
    world.counterparty.replies.append({"not_done": "busy", "retry_after": 1})
    async with world.worker(app):
        await world.client.start(LookInline, "a", Booking())
        await world.counterparty.saw("do")
        await world.handle(KIND, "a").signal("hear", "hey")
        assert await _say(world, "you") == "2"
        assert await world.ended(KIND, "a") == "done"
    assert await _words(world) == ["hey", "you"]


async def _say(world: World, word: str = "hey") -> str:
    """The update's answer, or `too late`."""
    try:
        return str(await world.update(KIND, "a", "say", word))
    except WorkflowUpdateFailedError as refusal:
        if "too late: already done" in str(refusal.cause):
            return "too late"
        raise
    except RPCError as closed:
        if closed.status is RPCStatusCode.NOT_FOUND:
            return "too late"
        raise


async def _ran_again(world: World) -> bool:
    history = await world.handle(KIND, "a").fetch_history()
    return any(each.HasField("workflow_task_failed_event_attributes") for each in history.events)


async def _was_done_once(world: World) -> None:
    assert world.counterparty.accepted == {KEY: 1}
    assert await world.states(KIND, "a") == ["starting", "doing", "done"]
    assert [each.status for each in (await world.client.status(KIND, "a")).effects] == ["done"]


async def _words(world: World) -> Any:
    snapshot = await world.db.fetchval("select snapshot from perdure.finished where id = 'a'")
    return json.loads(snapshot)["words"]
