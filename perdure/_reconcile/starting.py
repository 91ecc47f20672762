"""Starts a clean-up, or joins the one that runs."""

from __future__ import annotations

from datetime import timedelta

from temporalio.client import Client, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy

from perdure._reconcile.workflow import CleanUp, clean_up_id
from perdure._text.shown import markdown
from perdure._wire.clean_up import Asked, Summary

_RPC = timedelta(seconds=10)


async def start_clean_up(engine: Client, scope: str | None, asked: Asked) -> WorkflowHandle[CleanUp, Summary]:
    """Its workflow: the one that runs, if one does that was asked the same.

    Raises:
        RPCError: Temporal has trouble.
    """
    summary = "perdure: clean-up" + (f" of {asked.only.lifecycle}/{asked.only.id}" if asked.only else "")
    handle: WorkflowHandle[CleanUp, Summary] = await engine.start_workflow(
        CleanUp.run,
        asked,
        id=clean_up_id(scope, asked.only),
        task_queue=clean_up_id(scope),
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        static_summary=markdown(summary),
        rpc_timeout=_RPC,
    )
    return handle
