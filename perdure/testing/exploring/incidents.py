"""The events and the faults of a scenario, as they happen to the parts of its world."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

from perdure._wire.names import MIRROR
from perdure.contracts.keys import Entity
from perdure.testing.exploring.scenario import RENEWS, Event, Fault

if TYPE_CHECKING:
    from perdure.testing.exploring.workers import Worker
    from perdure.testing.exploring.workflow_tasks import WorkflowTask
    from perdure.testing.exploring.world import World

_REPORT, _LONG_REPORT = 0.001, 0.05
"""Seconds between the completion of a workflow task and its receipt: usually, and long enough for a message to come."""


class Incidents:
    """Lets the events of a scenario happen, and its faults where a worker reaches their places.

    Args:
        world: that of the scenario.

    Attributes:
        reached: how often each place was reached.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._faults = {(each.place, each.number): each for each in world.scenario.faults}
        self.reached: Counter[str] = Counter()

    async def reach(self, worker: Worker, place: str) -> None:
        """A worker reaches a place where something may happen to it."""
        if (fault := self._fault_at(place)) is not None:
            self.inject(worker, fault.what, fault.seconds)
        await worker.here()

    def report_time(self, task: WorkflowTask) -> float:
        """How many seconds the report of a workflow task takes. Where its run continues as new, something may happen
        meanwhile."""
        if not any(command.HasField("continue_as_new_workflow_execution") for command in task.commands):
            return _REPORT
        if (fault := self._fault_at(RENEWS)) is None:
            return _REPORT
        entity = Entity.of_workflow(task.run.workflow_id, task.run.lifecycle, 0)
        self.happen_to(entity.id, Event(self._world.loop.time(), fault.what, fault.seconds))
        return _LONG_REPORT

    def happen(self, event: Event) -> None:
        """An event happens to one of the entities."""
        rows = sorted(self._world.database.rows)
        self.happen_to(self._world.random.choice(rows) if len(rows) > 1 else rows[0], event)

    def happen_to(self, entity_id: str, event: Event) -> None:
        """An event happens to an entity, or to what it depends on."""
        world = self._world
        row = world.database.rows[entity_id]
        workflow_id = row.entity.workflow_id(None)
        execution = world.temporal.executions.get(workflow_id)
        is_open = execution is not None and execution.open
        world.cover("event", event.what)
        match event.what:
            case "cancel":
                world.people.cancel(row.entity)
            case "retry":
                world.people.retry(row.entity)
            case "send again":
                world.people.send_again(row.entity)
            case "message":
                if world.subject.messages:
                    world.relay.send(row)
            case "confirm":
                world.people.confirm(row.entity)
            case "update":
                world.people.append(row.entity)
            case "again":
                world.relay.send_again(row)
            case "cancel through Temporal":
                if is_open:
                    world.temporal.request_cancel(workflow_id)
            case "mirror":
                if is_open:
                    world.temporal.signal(workflow_id, MIRROR, "reconciliation")
            case "terminate":
                world.observed.lose_history(row.entity, world.database.store.version(row.entity))
                if is_open:
                    world.temporal.terminate(workflow_id)
                world.loop.call_later(event.seconds, world.relay.recover)
            case "lose Temporal":
                for each in world.database.rows.values():
                    world.observed.lose_history(each.entity, world.database.store.version(each.entity))
                world.temporal.lose_everything()
                world.loop.call_later(event.seconds, world.relay.recover)
            case "evict":
                if execution is not None and is_open and execution.tasks.task is None:
                    for worker in world.workers:
                        worker.evict(execution.run)
            case "deploy":
                world.deploy()
            case "start worker":
                world.start_worker()
            case "restore" | "lose commits":
                world.observed.lose_records()
                if event.what == "restore":
                    world.database.store.lose_records()
                else:
                    world.database.store.lose_commits(world.random.randint(1, 8))
                for each in world.database.rows.values():
                    world.loop.call_later(event.seconds, world.people.reconcile, each.entity)
            case "worker's clock":
                world.random.choice(world.workers).clock_ahead += self._jump(event.seconds)
            case "Temporal's clock":
                world.temporal.put_clock(self._jump(event.seconds))
            case _:
                if able := [each for each in world.workers if each.alive]:
                    self.inject(world.random.choice(able), event.what, event.seconds)

    def inject(self, worker: Worker, what: str, seconds: float) -> None:
        """A worker, or the database, has a fault; see `Fault`."""
        world = self._world
        until, database = world.loop.time() + seconds, world.database
        world.observed.workers_lost |= what in ("kill", "freeze", "stall", "cut off")
        match what:
            case "kill":
                worker.kill()
                world.loop.call_later(seconds, world.start_worker)
            case "freeze":
                worker.freeze(seconds)
            case "stall":
                worker.stall(seconds)
            case "cut off":
                worker.cut_off(seconds)
            case "stop":
                worker.stop()
                world.loop.call_later(seconds, world.start_worker)
            case "away":
                database.away_until = max(database.away_until, until)
            case "lose replies":
                database.loses_replies_until = max(database.loses_replies_until, until)
            case "lock":
                database.locked_until = max(database.locked_until, until)
            case _:
                raise ValueError(f"{what!r} is no fault")

    def _fault_at(self, place: str) -> Fault | None:
        """The fault of a place that is reached now."""
        self.reached[place] += 1
        fault = self._faults.get((place, self.reached[place]))
        if fault is not None:
            self._world.cover(place, fault.what)
        return fault

    def _jump(self, seconds: float) -> timedelta:
        return timedelta(seconds=10 * seconds * self._world.random.choice((-1, 1)))
