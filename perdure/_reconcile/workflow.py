"""`perdure-reconciliation`: the workflow that compares outbox, mirror and Temporal, one part after the other.

It decides nothing. Its parts are activities that can be repeated, and continue from their last place if their worker is
lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

from perdure._wire.reconciliation import Begun, Checked, Done, Named, ReconciliationRequest, Summary

RECONCILIATION = "perdure-reconciliation"
BEGIN = "perdure.reconciliation.begin"
PART = "perdure.reconciliation."
"""Prefix of the activity types of the parts, before the part's name."""
END = "perdure.reconciliation.end"
HEARTBEAT = timedelta(seconds=60)

_ON = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1))
_A_WHILE = RetryPolicy(
    initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=5), maximum_attempts=10
)
"""About nine minutes, plus the duration of the attempts."""
_LONGEST = timedelta(hours=12)
_LONGEST_ID = 990
"""Bytes. Temporal refuses workflow ids over 1,000. A longer one is cut, and gets a digest of the whole."""


def reconciliation_id(scope: str | None, only: Named | None = None) -> str:
    """Workflow id of the reconciliation. Without `only` it is also its task queue, and the id of its Schedule."""
    whole = f"{RECONCILIATION}:{scope}" if scope else RECONCILIATION
    if only is None:
        return whole
    name = f"{whole}/{only.lifecycle}/{only.id}"
    if len(data := name.encode()) <= _LONGEST_ID:
        return name
    digest = "~" + hashlib.sha256(data).hexdigest()[:40]
    return data[: _LONGEST_ID - len(digest)].decode(errors="ignore") + digest


@workflow.defn(name=RECONCILIATION)
class Reconciliation:
    """One reconciliation, of all entities or of one."""

    @workflow.run
    async def run(self, asked: ReconciliationRequest) -> Summary:
        """Execute the parts. A part that fails for good does not prevent the others."""
        begun: Begun = await _call(BEGIN, [asked, workflow.info().run_id], Begun, _ON, asked.by)
        done = Done(begun=begun)
        for number, part in enumerate(begun.parts, 1):
            try:
                done.checked[part] = await _call(
                    PART + part, [begun], Checked, _A_WHILE, f"{number} of {len(begun.parts)}"
                )
            except ActivityError as error:
                done.failed[part] = _why(error)
        summary: Summary = await _call(END, [done], Summary, _ON, None)
        workflow.set_current_details(_table(summary))
        return summary


async def _call(name: str, given: Sequence[Any], result: type[Any], retry: RetryPolicy, summary: str | None) -> Any:
    return await workflow.execute_activity(
        name,
        args=given,
        result_type=result,
        start_to_close_timeout=_LONGEST,
        heartbeat_timeout=HEARTBEAT,
        retry_policy=retry,
        summary=summary,
    )


def _why(error: ActivityError) -> str:
    cause = error.cause or error
    return f"{getattr(cause, 'type', None) or type(cause).__name__}: {cause}".splitlines()[0][:500]


def _table(summary: Summary) -> str:
    """The summary as Markdown, for the Web UI."""
    rows = [f"| {kind} | {each.mended} | {each.left} |" for kind, each in sorted(summary.kinds.items())]
    failed = [f"- **{part} failed**: {why}" for part, why in summary.failed.items()]
    looked = f"{summary.seen} open entities were checked; {summary.mended} mended, {summary.left} left for a person."
    table = ["| kind | mended | left |", "|---|---|---|", *rows] if rows else ["Nothing was found."]
    return "\n".join([looked, "", *table, "", *failed]).rstrip()
