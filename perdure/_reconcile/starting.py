"""Starts a reconciliation, or joins the running one."""

from __future__ import annotations

from datetime import timedelta

from temporalio.client import Client, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy

from perdure._crypto.codec import reading_client
from perdure._reconcile.workflow import Reconciliation, reconciliation_id
from perdure._text.shown import markdown
from perdure._wire.reconciliation import ReconciliationRequest, Summary

_RPC = timedelta(seconds=10)


async def start_reconciliation(
    temporal_client: Client, scope: str | None, asked: ReconciliationRequest
) -> WorkflowHandle[Reconciliation, Summary]:
    """Start a reconciliation, and return its workflow. A running one of the same scope is joined.

    The request is not encrypted: it could have a key that no worker has, and others would join a run that stands still.

    Raises:
        RPCError: Temporal fails.
    """
    summary = "perdure: reconciliation" + (f" of {asked.only.lifecycle}/{asked.only.id}" if asked.only else "")
    handle: WorkflowHandle[Reconciliation, Summary] = await reading_client(temporal_client).start_workflow(
        Reconciliation.run,
        asked,
        id=reconciliation_id(scope, asked.only),
        task_queue=reconciliation_id(scope),
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        static_summary=markdown(summary),
        rpc_timeout=_RPC,
    )
    return handle
