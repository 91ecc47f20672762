"""The filter of Temporal's list for one workflow."""

from __future__ import annotations

import re


def of_workflow(workflow_id: str) -> str:
    """A filter that finds all runs of a workflow, and perhaps runs of others: compare their ids. Temporal finds no id
    with a double quote or a backslash, so the filter has only what stands before the first of them.

    Example:
        >>> of_workflow("order/o'neil"), of_workflow('order/a"b')
        ("WorkflowId = 'order/o''neil'", "WorkflowId STARTS_WITH 'order/a'")
    """
    known, *rest = re.split(r'["\\]', workflow_id, maxsplit=1)
    quoted = known.replace("'", "''")
    return f"WorkflowId STARTS_WITH '{quoted}'" if rest else f"WorkflowId = '{quoted}'"
