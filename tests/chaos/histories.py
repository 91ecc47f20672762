"""Whole histories of workflows, in files that `temporalio.client.WorkflowHistory.from_json` reads."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from temporalio.client import WorkflowHistory

from perdure.contracts.keys import Entity
from tests.world import World


async def histories(world: World, entity: Entity) -> list[WorkflowHistory]:
    """Of all runs in the chain of the newest one, the first one first."""
    found: list[WorkflowHistory] = []
    run_id: str | None = None
    while run_id != "":
        handle = world.temporal_client.get_workflow_handle(entity.workflow_id(world.scope), run_id=run_id)
        found.append(await handle.fetch_history())
        run_id = found[-1].events[0].workflow_execution_started_event_attributes.continued_execution_run_id
    return found[::-1]


async def keep(world: World, entity: Entity, folder: Path) -> list[Path]:
    """Write the histories of an entity's runs into `folder`; the files, the first run's first."""
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    for number, history in enumerate(await histories(world, entity), 1):
        files.append(folder / f"{quote(f'{entity.lifecycle}-{entity.id}', safe='')}-run-{number}.json")
        files[-1].write_text(history.to_json() + "\n")
    return files
