"""The present run of a workflow, as a client sees it, and its memo."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from temporalio.client import WorkflowExecution, WorkflowExecutionDescription, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from perdure._text.privacy import describe
from perdure._wire.carried import CARRIED, Carried
from perdure.errors import UnknownKey

_RPC = timedelta(seconds=10)

log = logging.getLogger("perdure.reconciliation")


async def present_run(handle: WorkflowHandle[Any, Any]) -> WorkflowExecutionDescription | None:
    """The last run of a workflow, open or closed; None if Temporal has none."""
    try:
        return await handle.describe(rpc_timeout=_RPC)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise


async def carried_by(run: WorkflowExecution, *, needs_key: bool = False) -> Carried | None:
    """What the run was given. None without a memo of Perdure's that can be read: anybody may start a workflow with
    another one, and a key of encryption may be gone.

    Args:
        needs_key: whether a missing key is an error.

    Raises:
        UnknownKey: this process does not have the key.
    """
    try:
        return await run.memo_value(CARRIED, None, type_hint=Carried)
    except Exception as error:  # from the converter or the codec; no other entity may wait for this one (invariant 8)
        if needs_key and isinstance(error, UnknownKey):
            raise
        log.warning("the memo of %s can't be read: %s", run.id, describe(error))
        return None


async def generation_of(run: WorkflowExecution) -> int | None:
    """The generation for which the run was started; None as `carried_by`."""
    carried = await carried_by(run)
    return None if carried is None else carried.generation
