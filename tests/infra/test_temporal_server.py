"""The real Temporal server on PostgreSQL keeps its workflows over a crash of its own, and of its database.

What has to be lost is lost: "Temporal is gone" must not be a pretence.
"""

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError
from temporalio.worker import Worker

from infra.temporal_server import TemporalOnPostgres
from tests.deadline import DEADLINE, in_time


@workflow.defn(sandboxed=False)
class Told:
    """Waits for a word, which it returns."""

    def __init__(self) -> None:
        self.word = ""

    @workflow.run
    async def run(self) -> str:
        await workflow.wait_condition(lambda: bool(self.word))
        return self.word

    @workflow.signal
    def tell(self, word: str) -> None:
        self.word = word


@pytest.fixture(scope="module")
def server() -> Iterator[TemporalOnPostgres]:
    with TemporalOnPostgres() as server:
        yield server


@pytest.mark.parametrize(
    "crash",
    [
        pytest.param(lambda server: server.kill(), id="server"),
        pytest.param(lambda server: server.postgres.kill(), id="database"),
        pytest.param(lambda server: (server.kill(), server.postgres.kill()), id="both"),
    ],
)
async def test_a_workflow_goes_on_after_a_crash_of(
    server: TemporalOnPostgres, crash: Callable[[TemporalOnPostgres], object]
) -> None:
    client = await Client.connect(server.address)
    async with Worker(client, task_queue="told", workflows=[Told]):
        started = await client.start_workflow(Told.run, id="told", task_queue="told")
        await until_begun(started)

        await asyncio.to_thread(crash, server)
        await asyncio.to_thread(server.start)

        await signalled(started, "go")
        assert await in_time(started.result()) == "go"


async def test_a_server_whose_data_was_deleted_serves_again_without_it(server: TemporalOnPostgres) -> None:
    client = await Client.connect(server.address)
    started = await client.start_workflow(Told.run, id="lost", task_queue="nobody")

    await asyncio.to_thread(server.forget)
    await asyncio.to_thread(server.start)

    again = await Client.connect(server.address)
    with pytest.raises(RPCError, match="not found"):
        await again.get_workflow_handle(started.id).describe()
    assert (await again.start_workflow(Told.run, id="lost", task_queue="nobody")).result_run_id


async def until_begun(started: WorkflowHandle[Told, str]) -> None:
    """Wait until its first workflow task is over: what it knows is in the database now."""
    while (await started.describe()).history_length < 4:
        await asyncio.sleep(0.02)


async def signalled(started: WorkflowHandle[Told, str], word: str) -> None:
    """Send it as soon as the server takes it: after a crash its shards are a moment behind its port."""
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                return await started.signal(Told.tell, word, rpc_timeout=timedelta(seconds=5))
            except RPCError:
                await asyncio.sleep(0.1)
