"""The floor: a workflow that does nothing, started eagerly. Less than this no workflow can cost."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from bench.cost.counting import ended


@workflow.defn
class Nothing:
    """Ends at once."""

    @workflow.run
    async def run(self, number: int) -> None:
        """Count, so that nobody has to ask the server how many have ended."""
        ended.add(number)
