"""With keys, neither Temporal nor the database holds a word of what is private; and keys can be changed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHandle, WorkflowUpdateFailedError
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError

from perdure import Entity
from perdure._crypto.codec import encrypting, opened
from perdure._services import delivery
from perdure.encryption import Private
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.apps import private_messages
from tests.apps.private_messages import PHONE, SECRET, PrivateMessage, Secret, app
from tests.integration.crypto.fixtures import (
    FIRST,
    GIVEN,
    SECOND,
    everything,
    in_plain,
    in_the_database,
    keys,
    payloads,
)
from tests.world import World

KINDS = (
    "started_event_attributes.input",
    "memo.fields",
    "user_metadata.summary",
    "signaled_event_attributes.input",
    "scheduled_event_attributes.input",
    "activity_task_completed_event_attributes.result",
    "details[result]",
    "accepted_request.input.args",
    "outcome.success",
    "failure.encoded_attributes",
    "application_failure_info.details",
    "continued_as_new_event_attributes.input",
)
"""Where payloads stand in what is looked through: it is no proof where there is nothing."""


@pytest.fixture
async def world(
    postgres: PostgresServer, temporal: TemporalServer, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    """One whose processes have a key, and seal."""
    monkeypatch.setenv("PERDURE_KEYS", f"{SECOND},{FIRST}")
    monkeypatch.setenv("PERDURE_SEAL", "true")
    monkeypatch.setattr(private_messages, "opened", [])
    made = World(postgres, temporal, database, tmp_path)
    made.config = made.config.model_copy(update={**keys(FIRST, SECOND), "seal": True})
    async with made.made(app) as made:
        yield made


async def test_a_whole_life_leaves_no_word_of_it_in_temporal_nor_a_sealed_field_in_the_database(world: World) -> None:
    handle = world.handle("private-message", "a")
    async with world.worker(app, **keys(FIRST, SECOND)):
        await world.client.start(PrivateMessage, "a", GIVEN)
        await world.asked("private-message", "a")
        first_run = (await handle.describe()).run_id
        assert await world.update("private-message", "a", PrivateMessage.ask, GIVEN) == GIVEN
        secret = Secret(to=Private(PHONE), text=f"{SECRET}?")
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await world.update("private-message", "a", PrivateMessage.ask, secret)
        assert isinstance(refused.value.cause, ApplicationError)
        assert refused.value.cause.message == f"that is no {SECRET}"
        await world.client.signal(PrivateMessage, "a", PrivateMessage.hear, GIVEN)
        await world.is_in("private-message", "a", "muttered")
        [heard] = await world.answer_of(handle, PrivateMessage.heard)
        assert heard.to.open(Entity("private-message", "a")) == PHONE
    async with world.worker(app, **keys(SECOND, FIRST)):
        await world.client.signal(PrivateMessage, "a", PrivateMessage.hear, GIVEN)
        assert await world.ended("private-message", "a") == "done"
    last_run = (await handle.describe()).run_id
    assert last_run != first_run
    found = await everything(world, (handle.id, first_run), (handle.id, last_run))
    raw = b"".join(each.SerializeToString() for each in found)
    assert [word for word in (SECRET, PHONE) if word.encode() in raw] == []
    # The SDK's core writes these past every codec: when a local activity ran, and which patch was taken.
    assert {place.rpartition("attributes.")[2] for place in in_plain(found)} <= {
        "details[data].payloads.",
        "details[patch-data].payloads.",
    }
    seen = {place for each in found for place, _ in payloads(each)}
    assert [kind for kind in KINDS if not any(kind in place for place in seen)] == []
    used = {payload.metadata["encryption-key-id"] for each in found for _, payload in payloads(each)} - {b""}
    assert used == {b"first", b"second"}
    assert private_messages.opened == [PHONE] * len(private_messages.opened)
    assert len(private_messages.opened) == 3
    rows = await in_the_database(world)
    assert "perdure-sealed:2:" in rows
    assert PHONE not in rows


async def test_a_worker_without_the_key_fails_no_entity_and_it_goes_on_when_the_key_is_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "TASK_TIMEOUT", timedelta(seconds=1))  # the task that it has when it is stopped
    handle = world.handle("private-message", "a")
    async with world.worker(app, **keys(SECOND)):
        await world.client.start(PrivateMessage, "a", GIVEN)
        await world.asked("private-message", "a")
    async with world.worker(app, **keys(FIRST)):
        await world.client.signal(PrivateMessage, "a", PrivateMessage.hear, GIVEN)
        failed = await world.until(lambda: _failed_task(handle), "a workflow task failed")
    converter = encrypting(pydantic_data_converter, world.config)
    failure = (await opened(failed.workflow_task_failed_event_attributes.failure, converter)).message
    assert failure == "it is encrypted with the key 'second', and this process has first: add 'second' to PERDURE_KEYS"
    assert (await world.client.status("private-message", "a")).attention is None
    async with world.worker(app, **keys(SECOND, FIRST)):
        await world.client.signal(PrivateMessage, "a", PrivateMessage.hear, GIVEN)
        assert await world.ended("private-message", "a") == "done"
    assert await world.db.fetchval("select count(*) from perdure.rejected") == 0


async def _failed_task(handle: WorkflowHandle[Any, Any]) -> HistoryEvent | None:
    async for event in handle.fetch_history_events():
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            return event
    return None
