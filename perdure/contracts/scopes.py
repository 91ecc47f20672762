"""Scopes keep the databases apart that share a Temporal namespace.

The scope is part of the name of each task queue and of the id of each workflow. A colon separates it, and neither a
lifecycle's nor a task queue's own name contains a colon: so no two scopes share a task queue or an id, and no scope
shares one with a database that has no scope.
"""

from __future__ import annotations


def queue_of(name: str, scope: str | None) -> str:
    """The task queue `name` of a scope: `name:scope`, and `name` without a scope."""
    return f"{name}:{scope}" if scope else name


def scope_of_queue(queue: str) -> str | None:
    """The scope of a task queue that `queue_of` has named."""
    return queue.partition(":")[2] or None


def workflow_prefix(lifecycle: str, scope: str | None) -> str:
    """What the ids of a lifecycle's workflows begin with: `scope:lifecycle/`, and `lifecycle/` without a scope."""
    return f"{scope}:{lifecycle}/" if scope else f"{lifecycle}/"


def scope_of_workflow(workflow_id: str) -> str | None:
    """The scope that a workflow id names."""
    return workflow_id.partition("/")[0].rpartition(":")[0] or None
