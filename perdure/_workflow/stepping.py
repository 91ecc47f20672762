"""Takes a step for a run: in the workflow task, and if that fails, as an activity until the step succeeds."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

from perdure._wire.orders import CallResult, Report, StepOrder
from perdure._wire.writes import Fence, FenceOp
from perdure._workflow.calling import BOOKKEEPING, NO_ANSWER, ONCE, SILENCE
from perdure._workflow.fitting import check_size
from perdure._workflow.leaving import Cancelled, Overtaken, to_its_end
from perdure._workflow.reading import read
from perdure._workflow.recorder import Recorder
from perdure._workflow.run_state import RunState
from perdure._workflow.waiter import Waiter
from perdure.contracts.dumping import load
from perdure.contracts.keys import Key
from perdure.contracts.steps import Step

In = TypeVar("In")
Out = TypeVar("Out")

_AGAIN = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1))


async def take(run: RunState, recorder: Recorder, waiter: Waiter, step: Step[In, Out], given: In) -> Out:
    """Take a step, and return its result.

    Raises:
        TooLarge: the input is too large for Temporal.
        Cancelled: the end was requested while the step could not succeed.
        Overtaken: the entity is over in the database.
    """
    order = StepOrder(
        # The same read as before a look-up: whether this is the entity's database, and the entity is open.
        write=recorder.order(
            fence=Fence(op=FenceOp.READ, key=Key.of(run.entity, step.identity), effect=step.identity, token="")
        ),
        input=step.dump_input(given, read_back=not workflow.unsafe.is_replaying()),
        timeout=step.timeout.total_seconds(),
    )
    check_size(run.entity, f"the step {step.name}", order)
    withdrawn = asyncio.Event()
    async with recorder.under_way():
        report = await to_its_end(_call(run, waiter, step, order, withdrawn), withdrawn.set)
    run.learn(report.version)
    if report.result is CallResult.OVER:
        raise Overtaken(report.state)
    return read(run, f"what {step.name} returned", lambda: load(step.receipt, report.receipt))


async def _call(
    run: RunState, waiter: Waiter, step: Step[Any, Any], order: StepOrder, withdrawn: asyncio.Event
) -> Report:
    try:
        report: Report = await workflow.execute_local_activity(
            step.identity,
            order,
            result_type=Report,
            start_to_close_timeout=step.timeout + BOOKKEEPING,
            retry_policy=ONCE,
            summary=step.name,
        )
    except NO_ANSWER:
        return await _until_it_succeeds(run, waiter, step, order, withdrawn)
    return report


async def _until_it_succeeds(
    run: RunState, waiter: Waiter, step: Step[Any, Any], order: StepOrder, withdrawn: asyncio.Event
) -> Report:
    """Take the step as an activity, which waits without new events in the history.

    Raises:
        Cancelled: the end was requested before the step succeeded.
        asyncio.CancelledError: the awaiting code was cancelled before the step succeeded.
    """
    taking: workflow.ActivityHandle[Report] = workflow.start_activity(
        step.identity,
        order,
        result_type=Report,
        start_to_close_timeout=step.timeout + BOOKKEEPING,
        heartbeat_timeout=SILENCE,
        retry_policy=_AGAIN,
        # An attempt under way ends, and its result counts. A pause between two attempts ends at once.
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary=f"{step.name}, until it succeeds",
    )
    run.events.of(taking)
    try:
        await waiter.pause(None, lambda: taking.done() or withdrawn.is_set())
        if not taking.done():
            raise asyncio.CancelledError
    except (Cancelled, asyncio.CancelledError):
        taking.cancel()
        with suppress(ActivityError, asyncio.CancelledError):  # the second one if the activity was not ordered yet
            return await taking
        raise
    return await taking
