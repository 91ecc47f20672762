"""FAILING: the tasks of a workflow fail again and again. Only other code helps, and Temporal repeats them until
then."""

from __future__ import annotations

from datetime import UTC

from perdure._reconcile.context import Context
from perdure._reconcile.failures import why_its_tasks_fail
from perdure._reconcile.row import Row
from perdure._services.runs import present_run
from perdure._store.finding_kinds import FAILING

TIMES = 3
"""Failures of one task from which on it is reported."""
_PREFIX = "its code fails: "


async def failing(context: Context, row: Row) -> bool:
    """Whether the workflow's tasks fail, as its worker has recorded. If so, report it."""
    if row.attention is None or not row.attention.startswith(_PREFIX) or row.is_young(context):
        return False
    return await report_failing(context, row, row.attention)


async def report_failing(context: Context, row: Row, reason: str, times: int = TIMES) -> bool:
    """Report the workflow if Temporal confirms that its task fails again and again.

    Args:
        times: least number of failures; 0 = a failure of its code was seen, even if no task is pending.
    """
    handle = context.temporal_client.get_workflow_handle(row.entity.workflow_id(context.settings.scope))
    seen = await present_run(handle)
    if seen is None:
        return False
    task = seen.raw_description.pending_workflow_task
    if task.attempt < times:
        return False
    what, why = reason.removeprefix(_PREFIX), await why_its_tasks_fail(handle, context.temporal_client.data_converter)
    if why and why not in reason:
        what = f"{what}: {why}"
    if task.attempt >= TIMES:
        since = task.original_scheduled_time.ToDatetime(UTC)
        what = f"its tasks fail since {since:%Y-%m-%d %H:%M:%S} UTC, {task.attempt} times: {what}"
    advice = "Deploy code that can follow its history: it goes on by itself. perdure replay checks that beforehand."
    await context.findings.report(FAILING, row.entity, what, advice)
    return True
