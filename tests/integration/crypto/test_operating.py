"""With keys, an operator can look, replay, reconcile and recover as without."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.service import RPCError

from perdure._reconcile.schedule import make_schedule
from perdure.servers.postgres import PostgresServer
from perdure.servers.temporal import TemporalServer
from tests.apps import private_messages
from tests.apps.private_messages import PHONE, PrivateMessage, app
from tests.command import perdure
from tests.integration.crypto.fixtures import FIRST, GIVEN, SECOND, in_plain, keys, the_reconciliation
from tests.world import World

APP = "tests.apps.private_messages:app"
REQUEST = {
    "history.events.workflow_execution_started_event_attributes.input.payloads.",
    "history.events.user_metadata.summary.",
    "execution_config.user_metadata.summary.",
}
"""Where the request for a reconciliation stands, which is not encrypted."""


@pytest.fixture
async def world(
    postgres: PostgresServer, temporal: TemporalServer, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    """One whose processes have a key, and seal."""
    monkeypatch.setenv("PERDURE_KEYS", FIRST)
    monkeypatch.setenv("PERDURE_SEAL", "true")
    monkeypatch.setattr(private_messages, "opened", [])
    made = World(postgres, temporal, database, tmp_path)
    made.config = made.config.model_copy(update={**keys(FIRST), "seal": True})
    async with made.made(app) as made:
        yield made


async def test_what_is_shown_replayed_cleaned_up_and_recovered_is_what_it_would_be_without(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world.worker(app):
        await world.client.start(PrivateMessage, "a", GIVEN)
        await world.client.signal(PrivateMessage, "a", PrivateMessage.hear, GIVEN)
        await world.is_in("private-message", "a", "muttered")
        cleaned = await perdure(world, "reconcile", "--now", "--json")
        assert cleaned.exit_code == 0, cleaned.output
        assert await make_schedule(
            world.temporal_client, world.config.model_copy(update={"reconciliation_every": 24.0})
        )
        schedule, *run = await the_reconciliation(world)
        assert in_plain(run) <= REQUEST
        assert all(place.startswith("schedule.action.") for place in in_plain([schedule]))
    unread = await perdure(world, "show", "private-message", "a", PERDURE_KEYS=SECOND)
    assert (unread.exit_code, "the attempts and look-ups can't be read: it is" in unread.stderr) == (1, True)
    assert "add 'first' to PERDURE_KEYS" in unread.stderr
    shown = await perdure(world, "show", "private-message", "a", "--json", "--payloads", "--app", APP)
    assert shown.exit_code == 0, shown.output
    tries = [(each["effect"], each["kind"], each["outcome"]) for each in json.loads(shown.stdout)["tries"]]
    assert tries == [
        ("whisper", "attempt", "not_done"),
        ("whisper", "attempt", "in_doubt"),
        ("whisper", "look-up", "done"),
        ("mutter", "attempt", "done"),
    ]
    assert PHONE not in shown.output
    replayed = await perdure(world, "replay", APP)
    assert replayed.exit_code == 0, replayed.output
    without = await perdure(world, "replay", APP, PERDURE_KEYS=SECOND)
    assert (without.exit_code, "is encrypted with the key 'first'" in without.output) == (1, True), without.output
    await _delete(world)
    monkeypatch.setenv("PERDURE_KEYS", f"{SECOND},{FIRST}")
    recovered = await perdure(world, "recover", "--yes", "--note", "the cluster burnt down")
    assert recovered.exit_code == 0, recovered.output
    async with world.worker(app, **keys(SECOND, FIRST)):
        await world.client.signal(PrivateMessage, "a", PrivateMessage.hear, GIVEN)
        assert await world.ended("private-message", "a") == "done"
    assert private_messages.opened == [PHONE] * 3  # twice to whisper, once to mutter: nothing again after the recovery


async def _delete(world: World) -> None:
    handle = world.handle("private-message", "a")
    execution = WorkflowExecution(workflow_id=handle.id)
    request = DeleteWorkflowExecutionRequest(namespace=world.temporal_client.namespace, workflow_execution=execution)
    await world.temporal_client.workflow_service.delete_workflow_execution(request)

    async def gone() -> bool:
        try:
            await handle.describe()
        except RPCError:
            return True
        return False

    await world.until(gone, "deleted")
