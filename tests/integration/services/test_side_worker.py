"""A worker beside that of the lifecycles can end by itself: then only a new process helps."""

from __future__ import annotations

from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from perdure._pulse import Pulse
from perdure._services.ownership.exchange import plain
from perdure._services.ownership.keeper import Keeper
from perdure._services.side_worker import side_worker
from tests.world import World


async def test_one_that_ends_by_itself_is_reported_and_one_that_is_stopped_is_not(world: World) -> None:
    stopped, ended = Pulse("stopped"), Pulse("ended")
    async with side_worker(_worker(plain(world.temporal_client)), "stopped", pulse=stopped):
        assert stopped.hung is None
    assert stopped.hung is None
    nowhere = await Client.connect(world.temporal.address, namespace="nowhere")
    async with side_worker(_worker(nowhere), "ended", pulse=ended):
        await world.until(lambda: ended.hung, "it is reported")
    assert ended.hung is not None
    assert ended.hung.why.startswith("it has ended: ")


def _worker(client: Client) -> Worker:
    return Worker(client, task_queue="beside", workflows=[Keeper], workflow_runner=UnsandboxedWorkflowRunner())
