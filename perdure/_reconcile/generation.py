"""The generation of a workflow, as its memo names it."""

from __future__ import annotations

import logging

from temporalio.client import WorkflowExecution

from perdure._text.privacy import describe
from perdure._wire.carried import CARRIED, Carried

log = logging.getLogger("perdure.reconciliation")


async def generation_of(run: WorkflowExecution) -> int | None:
    """The generation for which the run was started. None without a memo of Perdure's that can be read: anybody may
    start a workflow with another one, and a key of encryption may be gone."""
    try:
        memo = await run.memo_value(CARRIED, None, type_hint=Carried)
    except Exception as error:  # from the converter or the codec; no other entity may wait for this one (invariant 8)
        log.warning("the memo of %s can't be read: %s", run.id, describe(error))
        return None
    return None if memo is None else memo.generation
