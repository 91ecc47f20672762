"""How a run takes a step: in the workflow task, and where that fails as an activity, until it succeeds."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

from perdure._wire.orders import Report, Said, StepOrder
from perdure._wire.writes import Fence, FenceOp
from perdure._workflow.calling import BOOKKEEPING, ONCE, SILENCE
from perdure._workflow.fitting import check_size
from perdure._workflow.leaving import Cancelled, Overtaken, to_its_end
from perdure._workflow.reading import read
from perdure._workflow.recorder import Recorder
from perdure._workflow.run_state import RunState
from perdure._workflow.waiter import Waiter
from perdure.contracts.keys import Key
from perdure.contracts.steps import Step

In = TypeVar("In")
Out = TypeVar("Out")

_AGAIN = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1))


async def take(run: RunState, recorder: Recorder, waiter: Waiter, step: Step[In, Out], given: In) -> Out:
    """What the step returned.

    Raises:
        TooLarge: the input is larger than Temporal takes.
        Cancelled: somebody asked for the end while it could not succeed.
        Overtaken: the database says that the entity is over.
    """
    order = StepOrder(
        # It asks what a look-up asks: whether this is the database of this entity, and the entity open.
        write=recorder.order(
            fence=Fence(op=FenceOp.READ, key=Key.of(run.entity, step.identity), effect=step.identity, token="")
        ),
        input=step.dump_input(given),
        timeout=step.timeout.total_seconds(),
    )
    check_size(run.entity, f"the step {step.name}", order)
    withdrawn = asyncio.Event()
    async with recorder.under_way():
        report = await to_its_end(_call(waiter, step, order, withdrawn), withdrawn.set)
    run.learn(report.version)
    if report.said is Said.OVER:
        raise Overtaken(report.state)
    return read(run, f"what {step.name} returned", lambda: step.receipt.validate_python(report.receipt))


async def _call(waiter: Waiter, step: Step[Any, Any], order: StepOrder, withdrawn: asyncio.Event) -> Report:
    try:
        report: Report = await workflow.execute_local_activity(
            step.identity,
            order,
            result_type=Report,
            start_to_close_timeout=step.timeout + BOOKKEEPING,
            retry_policy=ONCE,
            summary=step.name,
        )
    except (ActivityError, ApplicationError):
        return await _until_it_succeeds(waiter, step, order, withdrawn)
    return report


async def _until_it_succeeds(
    waiter: Waiter, step: Step[Any, Any], order: StepOrder, withdrawn: asyncio.Event
) -> Report:
    """Not in the workflow task: while it can't succeed this waits without growing the history.

    Raises:
        Cancelled: somebody asked for the end, and it had not succeeded by then.
        asyncio.CancelledError: likewise, where the code that awaits it was cancelled.
    """
    taking: workflow.ActivityHandle[Report] = workflow.start_activity(
        step.identity,
        order,
        result_type=Report,
        start_to_close_timeout=step.timeout + BOOKKEEPING,
        heartbeat_timeout=SILENCE,
        retry_policy=_AGAIN,
        # What was begun comes to its end, and that counts; a pause between two attempts ends at once.
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary=f"{step.name}, until it succeeds",
    )
    try:
        await waiter.pause(None, lambda: taking.done() or withdrawn.is_set())
        if not taking.done():
            raise asyncio.CancelledError
    except (Cancelled, asyncio.CancelledError):
        taking.cancel()
        with suppress(ActivityError):
            return await taking
        raise
    return await taking
