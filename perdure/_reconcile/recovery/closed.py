"""How a workflow closed that left its entity open, in words that follow `its workflow`."""

from __future__ import annotations

from temporalio.client import WorkflowExecutionStatus as Status

HOW_IT_CLOSED = {
    Status.FAILED: "failed",
    Status.TIMED_OUT: "timed out",
    Status.TERMINATED: "was terminated",
    Status.CANCELED: "was cancelled past perdure",
}
"""All but those that closed normally, or go on in a new run."""
