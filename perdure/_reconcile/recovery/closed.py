"""Describes how a workflow closed that left its entity open, in words that follow `its workflow`."""

from __future__ import annotations

from temporalio.client import WorkflowExecutionStatus as EffectStatus

HOW_IT_CLOSED = {
    EffectStatus.FAILED: "failed",
    EffectStatus.TIMED_OUT: "timed out",
    EffectStatus.TERMINATED: "was terminated",
    EffectStatus.CANCELED: "was cancelled past perdure",
}
"""All ends except a normal one and continue-as-new."""
