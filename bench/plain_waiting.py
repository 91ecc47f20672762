"""Plain Temporal workflows that wait, to compare lifecycles with: `python -m bench.plain_waiting COUNT`.

The worker polls as Perdure's does and has no sandbox. It prints its RSS in bytes before and after as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import psutil
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

with workflow.unsafe.imports_passed_through():
    from bench.memory import FIRST, INPUT
    from perdure._worker.worker import POLLERS, WORKFLOW_TASKS


@workflow.defn
class PlainWaiting:
    """Waits for what never comes."""

    @workflow.run
    async def run(self, comment: dict[str, Any]) -> None:
        """Wait."""
        await workflow.wait_condition(lambda: False)


async def main(count: int) -> None:
    """Start them, and measure this process."""
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"])
    worker = Worker(
        client,
        task_queue="plain",
        workflows=[PlainWaiting],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_cached_workflows=FIRST + count,
        max_concurrent_workflow_tasks=WORKFLOW_TASKS,
        workflow_task_poller_behavior=POLLERS,
    )
    running = asyncio.create_task(worker.run())
    room = asyncio.Semaphore(20)

    async def start(number: int) -> None:
        async with room:
            name = f"plain-{number}"
            await client.start_workflow(PlainWaiting.run, INPUT, id=name, task_queue="plain", request_eager_start=True)

    found = []
    for first, last in ((0, FIRST), (FIRST, FIRST + count)):
        await asyncio.gather(*(start(number) for number in range(first, last)))
        await asyncio.sleep(2)  # the last workflow tasks are done
        found.append(psutil.Process().memory_info().rss)
    print(json.dumps(found), flush=True)
    await worker.shutdown()
    await running


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
