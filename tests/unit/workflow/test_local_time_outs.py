"""A local activity times out where its worker stands still. In a replay, Temporal's SDK raises another error for it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from enum import StrEnum
from typing import Any

import pytest
from temporalio import workflow
from temporalio.exceptions import TimeoutError, TimeoutType

from perdure import AskFirst, Effect, InDoubt, Lifecycle, Lookup, Step, state
from perdure._store.memory import MemoryStore
from perdure._wire.names import WRITE
from perdure.contracts.outcomes import Done
from perdure.testing.script import Script
from perdure.testing.server import START, ActivityCall, ActivityEnd, Failed, TimedOut, UnderWay, VirtualWorkflow
from perdure.testing.stage import Stage
from tests.deadline import DEADLINE

LIMIT = timedelta(seconds=10)
PREPARE = Step[str, str]("prepare", timeout=LIMIT)
FIND = Lookup[str, int]("find-call", inline=True)
CALL = Effect[str, int]("call", timeout=LIMIT, doubt=AskFirst(FIND, visibility_delay=LIMIT), inline=True)
LATE = TimeoutError("Activity timed out", type=TimeoutType.START_TO_CLOSE, last_heartbeat_details=[])


class Way(StrEnum):
    CALLING = state("calling", leads_to=("called",))
    CALLED = state("called", final=True)


@workflow.defn(name="calling")
class Calling(Lifecycle[str, Way]):
    effects = (CALL,)
    steps = (PREPARE,)

    @workflow.run
    async def run(self, given: str) -> None:
        await self.step(PREPARE, given)
        assert await self.perform(CALL, given) == Done(5)
        await self.enter(Way.CALLED)


@pytest.mark.parametrize("end", [TimedOut(TimeoutType.START_TO_CLOSE), Failed(LATE)], ids=["at first", "in a replay"])
async def test_a_run_continues_after_the_time_out_of_each_of_its_local_activities(end: ActivityEnd) -> None:
    late = {WRITE, PREPARE.name, CALL.name, FIND.name}

    async def play(call: ActivityCall) -> ActivityEnd | UnderWay:
        if call.is_local and call.activity_type in late:
            late.remove(call.activity_type)
            return end
        return await stage.play(call)

    contracts: dict[str, Any] = {each.name: each for each in (PREPARE, CALL, FIND)}
    script = Script(contracts, {PREPARE: ["ready"], CALL: [InDoubt("cut")], FIND: [5]})
    temporal_client = VirtualWorkflow(Calling, ["it"], workflow_id="calling/1", on_activity=play, start=START)
    stage = Stage(
        contracts,
        script,
        now=lambda: temporal_client.now,
        outside=lambda happens, after: temporal_client.outside(happens, after=after),
    )
    stage.store = MemoryStore(stage.clock)
    async with temporal_client, asyncio.timeout(DEADLINE):
        ended = await temporal_client.run()
        await stage.close()

    assert (ended.kind, late) == ("completed", set())
