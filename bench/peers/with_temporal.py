"""The order in plain Temporal: an activity charges, another writes. `python -m bench.peers.with_temporal` runs it."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from bench.peers import shop


@activity.defn
def charge_card(order: int) -> str:
    """Charge the card. The key is the same in each attempt."""
    found = shop.find(order) if shop.SIDE == "look-up" else None
    return found or shop.charge(order, f"order-{order}")


@activity.defn
def mark_charged(order: int) -> None:
    """Write the state."""
    shop.at("before-write")
    with shop.transaction() as connection:
        connection.execute("update orders set state = 'charged' where id = %s", [order])


@workflow.defn
class OrderWorkflow:
    """Charges, then writes."""

    @workflow.run
    async def run(self, order: int) -> None:
        """Temporal repeats an activity that fails or times out."""
        await workflow.execute_activity(charge_card, order, start_to_close_timeout=shop.TIMEOUT)
        await workflow.execute_activity(mark_charged, order, start_to_close_timeout=shop.TIMEOUT)


def commit(number: int) -> None:
    """Commit the order."""
    with shop.transaction() as connection:
        connection.execute("insert into orders (id) values (%s)", [number])
    shop.at("after-commit")


async def take(number: int) -> None:
    """Commit the order, then start its workflow."""
    await asyncio.to_thread(commit, number)
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"])
    await client.start_workflow(OrderWorkflow.run, number, id=f"order-{number}", task_queue="orders")


async def main() -> None:
    """Work."""
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"])
    with ThreadPoolExecutor(20) as threads:
        await Worker(
            client,
            task_queue="orders",
            workflows=[OrderWorkflow],
            activities=[charge_card, mark_charged],
            activity_executor=threads,
            max_concurrent_activities=20,
        ).run()


if __name__ == "__main__":
    asyncio.run(main())
