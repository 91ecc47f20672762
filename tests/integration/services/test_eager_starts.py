"""A relay hands the first task of what it starts to the worker of its process, as long as that one has room."""

from __future__ import annotations

from contextlib import suppress

import temporalio.client

from perdure._services.pace import BATCH
from perdure._services.relay import Relay
from perdure._store.postgres import Database
from perdure._worker.worker import WORKFLOW_TASKS
from perdure.errors import TemporalUnavailable
from tests.apps.bodies import app
from tests.world import World

KIND = "lookup-inline"
_START = "select perdure.start($1, n::text, '{}') from generate_series(1, $2::int) n"
_ATTEMPTS = "select key, attempts from perdure.effect"
_WAITING = "select count(*) from perdure.outbox"


async def was_eager(world: World, entity_id: int) -> bool:
    """Whether Temporal's answer to the start had the first task."""
    history = await world.handle(KIND, entity_id).fetch_history()
    return history.events[0].workflow_execution_started_event_attributes.eager_execution_accepted


async def deliver_all(world: World, client: temporalio.client.Client) -> list[int]:
    """Let a relay with this client deliver all that waits; how many it then had room for, batch by batch."""
    database, rooms = Database(world.dsn), []
    relay = Relay(await database.open(), client, app, world.config)
    while await world.db.fetchval(_WAITING):
        with suppress(TemporalUnavailable):  # it was too busy to answer in time
            await relay.once()
        rooms.append(relay.pace.starts.most)
    await database.close()
    return rooms


async def test_the_first_task_goes_to_the_worker_of_the_relays_process(world: World) -> None:
    async with world.worker(app, relay=False) as client:
        await world.db.execute(_START, KIND, 5)
        assert set(await deliver_all(world, client)) == {BATCH}
        assert [await was_eager(world, each) for each in range(1, 6)] == [True] * 5


async def test_a_relay_without_a_worker_delivers_in_whole_batches(world: World) -> None:
    await world.db.execute(_START, KIND, 2 * BATCH)
    assert set(await deliver_all(world, world.temporal_client)) == {BATCH}
    assert not await was_eager(world, 1)


async def test_a_full_worker_gets_few_and_does_all_of_them_once(world: World) -> None:
    world.counterparty.before_accepting.shut()
    count = WORKFLOW_TASKS + 2 * BATCH
    async with world.worker(app, relay=False) as client:
        await world.db.execute(_START, KIND, count)
        assert min(await deliver_all(world, client)) < BATCH // 2
        world.counterparty.before_accepting.open()

        async def over() -> bool:
            return bool(await world.db.fetchval("select count(*) = $1 from perdure.finished", count))

        await world.until(over, "all done")
    # Calls that the other side held for longer than they may take are made again, and it accepts the held ones too.
    attempts = {each["key"]: each["attempts"] for each in await world.db.fetch(_ATTEMPTS)}
    assert len(attempts) == count
    assert world.counterparty.accepted.keys() == attempts.keys()
    assert [key for key, times in world.counterparty.accepted.items() if times > attempts[key]] == []
