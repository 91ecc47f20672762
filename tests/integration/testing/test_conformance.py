"""One table of scripts, rehearsed and run on real servers: the same states, calls, keys and outcomes.

Numbers of look-ups are not compared: they depend on how soon a loss is noticed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import Any, NoReturn, cast

import pytest
import temporalio.client
from temporalio import activity, workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from perdure import App, InDoubt, Lifecycle, NotDone, OperatorRequest, PerdurePlugin, Refused
from perdure._wire.status import LifecycleStatus
from perdure._wire.writes import Answer, FenceOp, Store, Write
from perdure._worker.worker import new_identity, new_worker
from perdure.client import Resolution, SendAgain
from perdure.contracts import EffectStatus
from perdure.contracts.effects import Effect
from perdure.testing import CANCEL_WORKFLOW, Recorded, When, WhenParked, WorkerLost, rehearse
from perdure.testing.script import Contract, Script
from tests.apps.bookings import LIFECYCLES
from tests.apps.contracts import INLINE, REGULAR, Booking, Ticket
from tests.deadline import in_time
from tests.running import running
from tests.world import World, answer_to

ONE = Ticket(number=1)
HITS, MISSES, MUTE = [ONE] * 40, [None] * 40, [ValueError("the log can't be read")] * 5
LOST, UNBEGUN = WorkerLost(), WorkerLost(before=True)
ANN = {"by": "ann", "note": "on the phone"}


def when_waiting(name: str, *args: Any) -> When:
    return When(lambda status: status.waits_for_retry, name, *args)


def resolved_as(outcome: EffectStatus, receipt: Any = None) -> When:
    return WhenParked("resolve", Resolution(by="ann", note="on the phone", outcome=outcome, receipt=receipt))


RETRY = when_waiting("retry_now", OperatorRequest(**ANN))
AGAIN = when_waiting("send_again", SendAgain(**ANN))


@dataclass(frozen=True)
class Case:
    """One script: at the effect, at its look-up, and messages."""

    policy: str
    does: Sequence[Any]
    finds: Sequence[Any] = ()
    messages: Sequence[When] = ()
    seconds: float = 0.0


CASES = {
    "done": Case("lookup", [ONE]),
    "not done, then done": Case("lookup", [NotDone("busy"), NotDone("busy"), ONE]),
    "not done, with a pause": Case("repeat", [NotDone("busy"), ONE]),
    "refused": Case("lookup", [Refused("no such street")]),
    "refused, retried": Case("lookup", [Refused("no"), ONE], messages=[RETRY]),
    "refused, sent again": Case("escalate", [Refused("no"), ONE], messages=[AGAIN]),
    "in doubt, hit": Case("lookup", [InDoubt("cut off")], HITS),
    "in doubt, missed": Case("lookup", [InDoubt("cut off"), ONE], MISSES),
    "in doubt, mute": Case("lookup", [InDoubt("cut off")], MUTE),
    "in doubt, mute, resolved": Case(
        "lookup", [InDoubt("cut off")], MUTE, [resolved_as(EffectStatus.DONE, {"number": 2})]
    ),
    "undeclared exception": Case("repeat", [ConnectionResetError("reset"), ONE]),
    "in doubt, deduplicated": Case("dedupe", [InDoubt("cut off"), InDoubt("cut off"), ONE]),
    "lost, hit": Case("lookup", [LOST], HITS),
    "lost, missed": Case("lookup", [LOST, ONE], MISSES),
    "lost twice, missed": Case("lookup", [LOST, LOST, ONE], MISSES),
    "lost, deduplicated": Case("dedupe", [LOST, ONE]),
    "lost, repeated": Case("repeat", [LOST, LOST, ONE]),
    "lost, parked": Case("escalate", [LOST]),
    "lost, resolved as done": Case("escalate", [LOST], messages=[resolved_as(EffectStatus.DONE, {"number": 2})]),
    "lost, resolved as not done": Case("escalate", [LOST, ONE], messages=[resolved_as(EffectStatus.NOT_DONE)]),
    "lost, abandoned": Case("escalate", [LOST], messages=[resolved_as(EffectStatus.ABANDONED), RETRY]),
    "lost, abandoned, sent again": Case("escalate", [LOST, ONE], messages=[resolved_as(EffectStatus.ABANDONED), AGAIN]),
    "lost before the record": Case("escalate", [UNBEGUN, ONE]),
    "lost before and after the record": Case("lookup", [UNBEGUN, LOST], HITS),
    "expired in a pause": Case("repeat", [NotDone("busy", retry_after=timedelta(minutes=9))], seconds=15),
    "expired in doubt": Case("escalate", [InDoubt("cut off")], seconds=15),
    "cancelled": Case("lookup", [Refused("no")], messages=[when_waiting("cancel", OperatorRequest(**ANN))]),
    "cancelled through temporal": Case("lookup", [Refused("no")], messages=[when_waiting(CANCEL_WORKFLOW)]),
}


@pytest.mark.parametrize("tail", ["", "-inline"])
async def test_a_script_gives_the_same_rehearsed_and_on_real_servers(world: World, tail: str) -> None:
    """As an activity, and inline."""
    scripts = {f"e{number}": script_of(case, tail) for number, case in enumerate(CASES.values())}
    plugin = ScriptedPlugin(scripts, world, tail)
    async with plugin.working():
        on_real: dict[str, Seen] = {}
        # The first attempt of those with a time has to begin within it, also on a busy machine: they are not in line
        # behind the others.
        for timed in (False, True):
            async with asyncio.TaskGroup() as group:
                begun = {
                    name: group.create_task(on_servers(world, plugin, entity_id, case, tail))
                    for entity_id, (name, case) in zip(scripts, CASES.items(), strict=True)
                    if bool(case.seconds) is timed
                }
            on_real |= {name: each.result() for name, each in begun.items()}
    rehearsals = [in_rehearsal(*each, tail) for each in zip(scripts, CASES.values(), strict=True)]
    rehearsed = dict(zip(CASES, await asyncio.gather(*rehearsals), strict=True))
    assert on_real == rehearsed


@dataclass(frozen=True)
class Seen:
    """What both sides are compared by."""

    states: list[str]
    waits_for: str | None
    calls: int
    outcomes: dict[str, list[EffectStatus]]
    answers: list[tuple[str, Any]]


def lifecycle_of(case: Case, tail: str) -> type[Lifecycle[Any, Any]]:
    wanted = case.policy + tail
    return next(each for each in LIFECYCLES if workflow._Definition.must_from_class(each).name == wanted)


def effect_of(case: Case, tail: str) -> Effect[Booking, Ticket]:
    return (INLINE if tail else REGULAR)[case.policy]


def script_of(case: Case, tail: str) -> Script:
    effect = effect_of(case, tail)
    contracts: dict[str, Contract] = {each.name: each for each in (effect, effect.lookup) if each is not None}
    finds = {effect.lookup: case.finds} if effect.lookup is not None else {}
    return Script(contracts, {effect: case.does, **finds})


async def in_rehearsal(entity_id: str, case: Case, tail: str) -> Seen:
    effect = effect_of(case, tail)
    script = {effect: case.does} | ({effect.lookup: case.finds} if effect.lookup is not None else {})
    seen = await rehearse(
        lifecycle_of(case, tail),
        Booking(seconds=case.seconds),
        script,
        messages=case.messages,
        entity_id=entity_id,
        allow_unused=True,
    )
    return Seen(
        states=[each.value for each in seen.states],
        waits_for=seen.waits_for,
        calls=seen.calls(effect),
        outcomes={str(key): outcomes for key, outcomes in seen.outcomes.items()},
        answers=[(each.how, each.result or each.why) for each in seen.answers],
    )


async def on_servers(world: World, plugin: ScriptedPlugin, entity_id: str, case: Case, tail: str) -> Seen:
    name = case.policy + tail
    started = await world.client.start(name, entity_id, Booking(seconds=case.seconds))
    assert started.answer == "started"
    handle = world.handle(name, entity_id)
    answers = [await delivered(world, name, entity_id, message) for message in case.messages]

    async def at_rest() -> LifecycleStatus | None:
        status = await status_of(handle)
        if status is None:
            return None
        parked = any(each.parked for each in status.effects) and not case.seconds
        return status if status.final or status.waits_for_retry or parked else None

    status = await world.until(at_rest, f"{name}/{entity_id} at rest", every=0.2)
    if status.final:  # which it says a moment before that is on record
        await world.ended(name, entity_id)
    async with plugin.one_reader:
        states = [state for state, _ in groupby(await world.states(name, entity_id))]
    for _ in range(await lost_tasks(handle)):
        states = without_repeat(states)
    parked = [each.effect for each in status.effects if each.parked]
    return Seen(
        states=states[1:],
        waits_for=f"resolve {parked[0]}" if parked else "retry_now" if status.waits_for_retry else None,
        calls=plugin.calls.count(entity_id),
        outcomes={key: each for key, each in plugin.recorded.outcomes.items() if f"/{entity_id}/" in key},
        answers=answers,
    )


async def lost_tasks(handle: temporalio.client.WorkflowHandle[Any, Any]) -> int:
    """How many workflow tasks of a run timed out, as on a busy machine, or failed.

    The task in the place of each repeats its inline effects, and shows its states again. A rehearsal loses no task.
    Of those that follow each other, Temporal writes an event for the first alone; it counts the rest in the attempt of
    the task that completes.
    """
    lost = (EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT, EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED)
    events = (await handle.fetch_history()).events
    attempts = [event.workflow_task_scheduled_event_attributes.attempt for event in events]
    return sum(event.event_type in lost for event in events) + sum(max(0, attempt - 2) for attempt in attempts)


def without_repeat(states: list[str]) -> list[str]:
    """The states without the first part that follows twice."""
    for length in range(len(states) // 2, 1, -1):
        for first in range(len(states) - 2 * length + 1):
            again = first + length
            if states[first:again] == states[again : again + length]:
                return states[:first] + states[again:]
    return states


async def status_of(handle: temporalio.client.WorkflowHandle[Any, Any]) -> LifecycleStatus | None:
    """None before the relay has started it, and where no worker has answered."""
    try:
        answer = await answer_to(handle, "status", result_type=LifecycleStatus)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
    return None if answer is None else answer[0]


async def delivered(world: World, name: str, entity_id: str, message: When) -> tuple[str, Any]:
    """Send it at its moment, and return what became of it."""
    handle = world.handle(name, entity_id)

    async def comes() -> bool:
        status = await status_of(handle)
        return status is not None and message.comes(status, busy=False)

    await world.until(comes, f"the moment of {message} for {handle.id}", every=0.1)
    if message.name == CANCEL_WORKFLOW:
        await handle.cancel()
        await in_time(handle.result())
        return "sent", None
    try:
        return "completed", await in_time(world.update(name, entity_id, message.name, message.args[0]))
    except WorkflowUpdateFailedError as refused:
        return "rejected", cast(ApplicationError, refused.cause).message


class Vanished(BaseException):
    """The worker is gone: no outcome is put on record, no report is sent."""


def vanish() -> NoReturn:
    """An activity never completes, so that its heartbeat time-out fires; an inline one fails without a report."""
    if activity.info().is_local:
        raise Vanished
    activity.raise_complete_async()


class ScriptedPlugin(PerdurePlugin):
    """A worker in which bodies do what the script of their entity says."""

    def __init__(self, scripts: dict[str, Script], world: World, tail: str) -> None:
        self.calls: list[str] = []
        self.recorded: Recorded
        self.one_reader = asyncio.Lock()
        self._scripts = scripts
        self._world = world
        self._contracts: dict[str, Contract] = {}
        effects = (INLINE if tail else REGULAR).values()
        finds = {each.lookup for each in effects if each.lookup is not None}
        bodies = [each.performs(self._body(each)) for each in effects] + [
            each.answers(self._body(each)) for each in finds
        ]
        lifecycles = [lifecycle_of(Case(policy, []), tail) for policy in REGULAR]
        super().__init__(App(lifecycles, bodies), world.config)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Run the worker."""
        client = await temporalio.client.Client.connect(
            self._world.temporal.address, plugins=[self], identity=new_identity()
        )
        async with running(new_worker(client, self.config)):
            yield

    def _running_store(self) -> Store:
        if not hasattr(self, "recorded"):
            self.recorded = Recorded(super()._running_store())
        return self

    async def write(self, write: Write, *, patience: float) -> Answer:
        """The store of the worker, which may be lost before it puts an attempt on record."""
        if write.fence is not None and write.fence.op is FenceOp.BEGIN:
            contract = self._contracts[write.fence.effect]
            script = self._scripts[write.id]
            if script.next(contract) == UNBEGUN:
                script.take(contract, write.fence.key, 0)
                vanish()
        return await self.recorded.write(write, patience=patience)

    def _body(self, contract: Contract) -> Any:
        self._contracts[contract.name] = contract

        async def body(booking: Booking, about: Any) -> Any:
            entity_id = about.key.split("/")[1]
            entry = self._scripts[entity_id].take(contract, about.key, 0)
            if isinstance(contract, Effect):
                self.calls.append(entity_id)
            if isinstance(entry, WorkerLost):
                vanish()
            if isinstance(entry, Exception):
                raise entry
            return entry

        return body
