"""How a workflow closed that left its entity open, in words that follow `its workflow`."""

from __future__ import annotations

from temporalio.client import WorkflowExecutionStatus as EffectStatus

HOW_IT_CLOSED = {
    EffectStatus.FAILED: "failed",
    EffectStatus.TIMED_OUT: "timed out",
    EffectStatus.TERMINATED: "was terminated",
    EffectStatus.CANCELED: "was cancelled past perdure",
}
"""All but those that closed normally, or go on in a new run."""
