"""Patients whose workflows Temporal lost go on from the app's database with every message they had received."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.service import RPCError

from perdure._reconcile.recovery.recovery import recover
from tests.applications.reminders.conftest import Clinic, a_plan
from workers.reminders.app import app

TOMORROW = datetime.now(UTC) + timedelta(days=1)


def at(hour: int) -> str:
    """A plan of one dose a day, from tomorrow on."""
    return json.dumps(a_plan({"rule": f"FREQ=DAILY;BYHOUR={hour};BYMINUTE=0", "start": f"{TOMORROW:%Y-%m-%d}T00:00"}))


async def test_changes_before_temporal_was_lost_are_known_after_the_recovery(quiet_clinic: Clinic) -> None:
    clinic, world = quiet_clinic, quiet_clinic.world
    async with world.worker(app):
        for patient in ("moved", "paused"):
            await clinic.sign_up(patient, json.loads(at(8)), "UTC")
        await clinic.change("moved", plan=at(21))
        await clinic.change("paused", paused=True)
        await is_at(clinic, "moved", f"next at {TOMORROW:%Y-%m-%d} 21:00:00 UTC")
        await is_at(clinic, "paused", "paused")
    await without(clinic, "moved", "paused")

    await recover(world.client._pool, world.temporal_client, world.scope, by="ann", why="the cluster burnt down")

    async with world.worker(app):
        await is_at(clinic, "moved", f"next at {TOMORROW:%Y-%m-%d} 21:00:00 UTC")
        await is_at(clinic, "paused", "paused")
        await clinic.change("paused", paused=False)
        await is_at(clinic, "paused", f"next at {TOMORROW:%Y-%m-%d} 08:00:00 UTC")
        await clinic.change("moved", signed_off=True)
        assert await world.ended("dosage-reminders", "moved") == "ended"


async def is_at(clinic: Clinic, patient: str, how_far: str) -> None:
    """Wait until a patient's reminders are so far."""

    async def so() -> bool:
        return (await clinic.world.asked("dosage-reminders", patient)).how_far == how_far

    await clinic.world.until(so, f"{patient}: {how_far}")


async def without(clinic: Clinic, *patients: str) -> None:
    """Delete their workflows from Temporal, and wait until they are gone."""
    temporal_client = clinic.world.temporal_client
    for patient in patients:
        execution = WorkflowExecution(workflow_id=f"{clinic.world.scope}:dosage-reminders/{patient}")
        await temporal_client.workflow_service.delete_workflow_execution(
            DeleteWorkflowExecutionRequest(namespace=temporal_client.namespace, workflow_execution=execution)
        )

        async def gone(patient: str = patient) -> bool:
            try:
                await clinic.world.handle("dosage-reminders", patient).describe()
            except RPCError:
                return True
            return False

        await clinic.world.until(gone, f"{patient} deleted")
