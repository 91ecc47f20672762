"""Scopes keep the databases apart that share a Temporal namespace.

The scope is part of the name of each task queue and of the id of each workflow. A colon separates it. Names of
lifecycles and task queues contain no colon, so two scopes share no task queue and no id, and a scope shares none with a
database that has no scope.
"""

from __future__ import annotations


def scope_setting(scope: str | None) -> str:
    """The setting of this scope, for messages. A scope may have any name, such as `none`.

    Example:
        >>> scope_setting("shop"), scope_setting(None)
        ("PERDURE_SCOPE='shop'", 'no PERDURE_SCOPE')
    """
    return f"PERDURE_SCOPE={scope!r}" if scope else "no PERDURE_SCOPE"


def queue_of(name: str, scope: str | None) -> str:
    """The task queue `name` of a scope: `name:scope`, and `name` without a scope."""
    return f"{name}:{scope}" if scope else name


def scope_of_queue(queue: str) -> str | None:
    """The scope of a task queue whose name `queue_of` returned."""
    return queue.partition(":")[2] or None


def workflow_prefix(lifecycle: str, scope: str | None) -> str:
    """The beginning of the workflow ids of a lifecycle: `scope:lifecycle/`, and `lifecycle/` without a scope."""
    return f"{scope}:{lifecycle}/" if scope else f"{lifecycle}/"


def scope_of_workflow(workflow_id: str) -> str | None:
    """The scope in a workflow id."""
    return workflow_id.partition("/")[0].rpartition(":")[0] or None
