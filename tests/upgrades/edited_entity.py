"""An entity that is led to a point, and what is seen of it then."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import temporalio.client
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowExecutionStatus, WorkflowHistory
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from perdure import App, Client, PerdurePlugin, Settings
from perdure._wire.carried import CARRIED, Carried
from perdure._wire.terms import all_terms
from perdure._worker.worker import new_worker
from perdure._workflow.reading import LOOK
from perdure.errors import AlreadyFinished, DeclarationError, NotNow
from tests.deadline import in_time
from tests.upgrades.editions import Editable, edition
from tests.world import World

PARCEL = "parcel"


class EditedEntity:
    """One entity `a` of a lifecycle that is edited while it is open."""

    def __init__(self, world: World, lifecycle: str = PARCEL) -> None:
        self.world = world
        self.lifecycle = lifecycle
        self.other = world.counterparty

    @asynccontextmanager
    async def worker(self, kind: type[Any], **settings: Any) -> AsyncIterator[App]:
        """A worker that runs this edition. It caches nothing: nobody waits for a cache that went with it."""
        app = edition(kind)
        async with self.world.worker(app, **({"max_cached_workflows": 0} | settings)):
            yield app

    async def refused(self, kind: type[Any], **settings: Any) -> str:
        """Why a worker that runs this edition does not start."""
        config = self.world.config.model_copy(update=settings)
        plugin = PerdurePlugin(edition(kind), config)
        client = await temporalio.client.Client.connect(self.world.temporal.address, plugins=[plugin])
        with pytest.raises(DeclarationError) as refused:
            await in_time(new_worker(client, config).run())
        return str(refused.value)

    async def start(self, given: Any = None, entity_id: str = "a") -> None:
        """Start it, and wait until Temporal knows it."""
        await self.client.start(self.lifecycle, entity_id, given or {})
        await self.world.until_delivered(self.lifecycle, entity_id)

    async def new_run(self, state: str, kind: type[Any]) -> None:
        """A new run, as one of this edition would have handed it on in `state`, for whichever worker is there: while
        workers are replaced, that may be one of another edition."""
        await self.world.temporal_client.start_workflow(
            self.lifecycle,
            {},
            id=f"{self.world.scope}:{self.lifecycle}/a",
            task_queue=self.world.config.queue,
            memo={CARRIED: Carried(state=state, terms=all_terms(kind.effects))},
        )

    async def go(self, entity_id: str = "a") -> None:
        """It waits no longer."""
        await self.world.handle(self.lifecycle, entity_id).signal(Editable.go)

    @property
    def client(self) -> Client:
        """Perdure's client, that knows no class."""
        return Client(self.world.client._pool, config=self.world.config, temporal_client=self.world.temporal_client)

    async def wants_a_person(self, entity_id: str = "a") -> str:
        """Wait until it does; says for what."""

        async def wanted() -> str | None:
            return (await self.client.status(self.lifecycle, entity_id)).attention

        return str(await self.world.until(wanted, f"{entity_id} needs a person"))

    async def wants(self, what: str, entity_id: str = "a") -> None:
        """Wait until it needs a person for this."""

        async def wanted() -> bool:
            return (await self.client.status(self.lifecycle, entity_id)).attention == what

        await self.world.until(wanted, f"{entity_id} needs a person: {what}")

    async def wants_nobody(self, entity_id: str = "a") -> None:
        """Wait until it does not."""

        async def content() -> bool:
            return (await self.client.status(self.lifecycle, entity_id)).attention is None

        await self.world.until(content, f"{entity_id} needs nobody")

    async def looks_again(self) -> None:
        """A person requests that a run that stands still looks again whether its code reads the record.

        It also does so by itself, first after ten seconds: then its history shows that timer, and it needs no request.
        """
        try:
            await self.client.retry(self.lifecycle, "a", by="ann", note="deployed")
        except (NotNow, AlreadyFinished):
            events = [event for history in await self.histories() for event in history.events]
            looks = {each.event_id for each in events if LOOK in each.user_metadata.summary.data.decode()}
            assert any(each.timer_fired_event_attributes.started_event_id in looks for each in events)

    async def doubt(self) -> None:
        """The other side does what it is asked next, and says nothing."""
        self.other.replies = [{"ok": True, "accept": True, "close": True}]

    async def end(self, entity_id: str = "a") -> str:
        """The state it ends in, once Temporal lists its run as over."""
        state = await self.world.ended(self.lifecycle, entity_id)
        await self.world.until(lambda: self._is_over(entity_id), f"the run of {entity_id} over")
        return state

    async def _is_over(self, entity_id: str) -> bool:
        about = f"WorkflowId = '{self.world.handle(self.lifecycle, entity_id).id}'"
        statuses = {each.status async for each in self.world.temporal_client.list_workflows(about)}
        return bool(statuses) and WorkflowExecutionStatus.RUNNING not in statuses

    async def histories(self) -> list[WorkflowHistory]:
        """Of all runs, oldest first."""
        runs = [
            each async for each in self.world.temporal_client.list_workflows(f"TaskQueue = '{self.world.config.queue}'")
        ]
        ordered = sorted(runs, key=lambda each: (each.start_time, each.history_length))
        return [
            await self.world.temporal_client.get_workflow_handle(each.id, run_id=each.run_id).fetch_history()
            for each in ordered
        ]

    async def failures(self) -> int:
        """How many workflow tasks have failed."""
        failed = EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
        return sum(event.event_type == failed for each in await self.histories() for event in each.events)

    async def queues(self, name: str) -> list[str]:
        """The task queue of each call of an activity."""
        scheduled = [
            event.activity_task_scheduled_event_attributes for each in await self.histories() for event in each.events
        ]
        return [each.task_queue.name for each in scheduled if each.activity_type.name == name]

    async def calls(self, name: str) -> list[str]:
        """How each call of an activity was made: `activity` or `inline`."""
        found = []
        for history in await self.histories():
            for event in history.events:
                if event.activity_task_scheduled_event_attributes.activity_type.name == name:
                    found.append("activity")
                marker = event.marker_recorded_event_attributes
                if marker.marker_name == "core_local_activity":
                    data = json.loads(marker.details["data"].payloads[0].data)
                    if data["activity_type"] == name:
                        found.append("inline")
        return found


async def replays(app: App, histories: list[WorkflowHistory], world: World) -> None:
    """Each of them, with this app's code."""
    for each in histories:
        await Replayer(workflows=[], plugins=[PerdurePlugin(app, world.config)]).replay_workflow(each)


async def follows(kind: type[Any], histories: list[WorkflowHistory]) -> bool:
    """Whether this edition's code can follow them."""
    try:
        for each in histories:
            plugin = PerdurePlugin(edition(kind), Settings())
            await Replayer(workflows=[], plugins=[plugin]).replay_workflow(each)
    except NondeterminismError:
        return False
    return True
