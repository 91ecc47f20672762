"""How a run calls an effect or a look-up: as an activity, or inline; once, since the workflow owns the attempts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy

from perdure.activity.orders import Report
from perdure.contracts.effects import Effect, Find

BOOKKEEPING = timedelta(seconds=12)
"""What an activity is given beyond its call: to commit before it and after it."""

_LOOK_UP_WAITS = timedelta(minutes=5), timedelta(seconds=5)
"""How long a look-up may wait for a worker, and after which silence that worker counts as lost."""

_ONCE = RetryPolicy(maximum_attempts=1)


async def call(
    contract: Effect[Any, Any] | Find[Any, Any],
    order: Any,
    *,
    name: str,
    inline: bool,
    timeout: timedelta,
    summary: str,
) -> Report:
    """One execution of it, under this name and this way; `timeout` is that of its call.

    Raises:
        ActivityError, ApplicationError: it gave no answer.
    """
    whole = timeout + BOOKKEEPING
    if inline:
        local: Report = await workflow.execute_local_activity(
            name,
            order,
            result_type=Report,
            start_to_close_timeout=whole,
            retry_policy=_ONCE,
            summary=summary,
        )
        return local
    waits = (contract.pick_up, contract.heartbeat) if isinstance(contract, Effect) else _LOOK_UP_WAITS
    report: Report = await workflow.execute_activity(
        name,
        order,
        result_type=Report,
        task_queue=contract.task_queue,
        schedule_to_start_timeout=waits[0],
        start_to_close_timeout=whole,
        heartbeat_timeout=waits[1],
        retry_policy=_ONCE,
        summary=summary,
    )
    return report
