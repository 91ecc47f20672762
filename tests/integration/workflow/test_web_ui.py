"""The Web UI shows where a run is, since when, and JSON that can be sent as it stands."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.service import RPCError

from perdure._services.indexing import Indexing
from tests.apps.contracts import Booking
from tests.apps.talking import Look, Ring, Slow, app
from tests.deadline import in_time
from tests.world import World


@asynccontextmanager
async def searchable(world: World) -> AsyncIterator[None]:
    """A worker whose runs can be found by why they need a person, on a server that knows the attribute."""
    indexing = Indexing(world.temporal_client, world.config)

    async def known() -> bool:
        with suppress(RPCError):
            await indexing.once()
        return indexing.known

    await world.until(known, "registered")
    async with world.worker(app):
        yield


async def test_the_details_of_a_parked_run_hold_json_that_resolves_it(world: World) -> None:
    world.counterparty.replies.append({"accept": False, "close": True})
    async with searchable(world):
        await world.client.start(Ring, "a", Booking())
        await world.until(lambda: _wants_a_person(world), "parked")
        details = await _details(world, "ring")
        since = (await world.asked("ring")).since
        assert details.startswith("**A person is needed.** do-ring is in doubt: ")
        assert f"**doing** since {since:%Y-%m-%d %H:%M:%S} UTC" in details
        assert re.search(r"- `do-ring`: \*\*in doubt: .+\*\*. Attempts begun: 1. Key `ring/a/do-ring`", details)
        assert "`perdure resolve ring a --effect ring/a/do-ring --as not_done --note WHY`" in details
        await world.until(lambda: _found(world, "in doubt: do-ring"), "found among those that need a person")
        await _send(world, "ring", "resolve", _json_in(details))
        assert await world.ended("ring", "a") == "done"
        await world.until(lambda: _found(world, None), "nobody is needed any more")
        history = await world.handle("ring", "a").fetch_history()
    summaries = [_text(each.user_metadata.summary) for each in history.events if each.user_metadata.HasField("summary")]
    assert any("a person is needed: do-ring is in doubt" in each for each in summaries), summaries
    assert world.counterparty.seen("do") == 2


@pytest.mark.parametrize("update", ["retry_now", "send_again"])
async def test_the_details_of_a_run_that_waits_for_a_person_hold_json_that_lets_it_go_on(
    world: World, update: str
) -> None:
    world.counterparty.replies.append({"refused": "no such bell"})
    async with searchable(world):
        await world.client.start(Ring, "a", Booking())
        await world.is_in("ring", "a", "failed")
        details = await _details(world, "ring")
        assert details.startswith("**A person is needed.** no such bell")
        assert f"`{update}`" in details
        await world.until(lambda: _found(world, "state: failed"), "found among those that need a person")
        await _send(world, "ring", update, _json_in(details))
        assert await world.ended("ring", "a") == "done"


async def test_the_details_of_a_back_off_say_when_it_goes_on(world: World) -> None:
    world.counterparty.replies.append({"not_done": "busy"})
    async with world.worker(app):
        await world.client.start(Slow, "a", Booking())
        await world.counterparty.saw("do")

        async def waits() -> bool:
            return bool(
                re.search(
                    r"`do-slow`: \*\*not done: busy\*\*. Attempts begun: 1, next step at", await _details(world, "slow")
                )
            )

        await world.until(waits, "the back-off in the details")


async def test_runs_and_activities_carry_summaries(world: World) -> None:
    world.counterparty.replies.append({"accept": True, "close": True})
    async with world.worker(app):
        await world.client.start(Look, "a", Booking())
        await world.ended("look", "a")
        history = await world.handle("look", "a").fetch_history()
    assert _text(history.events[0].user_metadata.summary) == "look/a"
    summaries = [_text(each.user_metadata.summary) for each in history.events if each.user_metadata.HasField("summary")]
    assert "do-look: attempt 1" in summaries
    assert "do-look: look-up 1" in summaries


async def _found(world: World, attention: str | None) -> bool:
    value = "IS NULL" if attention is None else f"= '{attention}'"
    listed = f"PerdureAttention {value} AND WorkflowId STARTS_WITH '{world.scope}:'"
    return (await world.temporal_client.count_workflows(listed)).count == 1


async def _details(world: World, kind: str) -> str:
    await world.asked(kind)  # so that it is delivered
    metadata = await world.query(kind, "a", "__temporal_workflow_metadata", result_type=WorkflowMetadata)
    return str(metadata.current_details)


def _json_in(details: str) -> str:
    found = re.search(r"^`(\{.*?\})`$", details, re.MULTILINE)
    assert found is not None
    json.loads(found[1])
    return found[1]


async def _send(world: World, kind: str, update: str, given: str) -> None:
    names = ["--workflow-id", f"{world.scope}:{kind}/a", "--name", update, "--input", given]
    await in_time(world.temporal_command("workflow", "update", "execute", *names))


async def _wants_a_person(world: World) -> bool:
    return (await world.client.status(Ring, "a")).attention is not None and any(
        each.parked for each in (await world.asked("ring")).effects
    )


def _text(payload: Payload) -> str:
    return str(json.loads(payload.data)) if payload.data else ""
