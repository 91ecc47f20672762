"""One scenario, played from its first commit to where nothing can happen any more, and judged."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from random import Random
from typing import Any

from temporalio import workflow
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter

from perdure._activity import execution as attempts
from perdure._activity.hosting import TemporalHost
from perdure._wire.writes import Write
from perdure._workflow.performing import Performance
from perdure.app import App
from perdure.contracts.keys import Entity
from perdure.testing import server_jobs as sdk
from perdure.testing.exploring.answers import Answer, Answers, watching
from perdure.testing.exploring.database import VirtualDatabase
from perdure.testing.exploring.evidence import Sent
from perdure.testing.exploring.executions import Execution
from perdure.testing.exploring.gathering import evidence_of, results_of
from perdure.testing.exploring.incidents import Incidents
from perdure.testing.exploring.judge import judge, judge_keys
from perdure.testing.exploring.observed import Observed
from perdure.testing.exploring.other_side import OtherSide
from perdure.testing.exploring.people import People
from perdure.testing.exploring.programs import BUG
from perdure.testing.exploring.relay import VirtualRelay
from perdure.testing.exploring.rooms import DatabaseRoom, RelayRoom
from perdure.testing.exploring.runs import Run
from perdure.testing.exploring.scenario import Finding, Scenario
from perdure.testing.exploring.stand_ins import standing_in
from perdure.testing.exploring.subject import Subject
from perdure.testing.exploring.temporal import VirtualTemporal
from perdure.testing.exploring.virtual_time import NeverEnds, StandsStill, VirtualLoop, VirtualTime
from perdure.testing.exploring.workers import Worker, current_worker
from perdure.testing.exploring.workflow_tasks import WorkflowTask
from perdure.testing.server import START

_SINGLE_BATCH = 2
"""The flag by which the SDK applies all jobs of an activation at once. The flag 1 is set by each run that needs it."""
NEVER = 10**9
LARGEST_RECEIPT = 2_000
"""Bytes of a receipt in a virtual world: what is larger costs time."""
MOST_ACTIVATIONS = 3_000
MOST_RUNS = 120
LONGEST = timedelta(days=2)
HELP = 80
"""Number of acts of people, after which the scenario counts as endless."""


class World:
    """Plays one scenario.

    Args:
        subject: what is explored.
        scenario: what happens.
        covered: counts each (place, event) that is seen.
        traced: whether `trace` is made, which costs a little.

    Attributes:
        observed: what the judge needs beside the records.
        task: the workflow task that is being worked on.
        trace: of all jobs that the workflows were given, and of their commands.
    """

    def __init__(
        self, subject: Subject, scenario: Scenario, covered: Counter[tuple[str, str]], *, traced: bool = True
    ) -> None:
        self.subject: Subject = subject
        self.scenario: Scenario = scenario
        self._covered = covered
        self.loop: VirtualTime = self.take_loop()
        self.random: Random = Random(scenario.seed)
        self.converter: DataConverter = pydantic_data_converter
        self.flags: list[int] = [1, _SINGLE_BATCH] if scenario.single_batch else [1]
        self.findings: list[Finding] = []
        self.observed: Observed = Observed()
        self.task: WorkflowTask | None = None
        self.traced: bool = traced
        self.trace: hashlib._Hash = hashlib.sha256()
        self.temporal: VirtualTemporal = VirtualTemporal(self, self.converter)
        self.other_side: OtherSide = OtherSide(self, scenario.calls, subject.receipts)
        rooms = self.rooms()
        self.database: DatabaseRoom = rooms[0]
        self.relay: RelayRoom = rooms[1]
        self.people: People = People(self)
        self.incidents: Incidents = Incidents(self)
        self.workers: list[Worker] = []
        self._builds = scenario.builds
        self._hosts: dict[tuple[int, str], sdk.Host] = {}
        self._activations = 0

    def take_loop(self) -> VirtualTime:
        """A loop whose time begins."""
        return VirtualLoop(START, LONGEST)

    def leave_loop(self) -> None:
        """Nothing happens on the loop any more."""
        self.loop.close()

    def rooms(self) -> tuple[DatabaseRoom, RelayRoom]:
        """The database, and what brings its commits to Temporal."""
        database = VirtualDatabase(self)
        return database, VirtualRelay(self, database)

    def play(self, entity: Entity) -> list[Finding]:
        """Play the scenario to its end; what it shows."""
        with _deterministic(self), _watching(self):
            try:
                self._play(entity)
            finally:
                for worker in self.workers:
                    worker.close()
                self._drain()
                self.leave_loop()
        return self.findings

    def _play(self, entity: Entity) -> None:
        for _ in self.scenario.builds:
            self.start_worker()
        self.database.store.keeps_moments = any(each.what == "lose commits" for each in self.scenario.events)
        self.relay.start(entity, self.scenario.given)
        for event in self.scenario.events:
            self.loop.call_later(event.at, self.incidents.happen, event)
        self._until_over(entity)
        for _ in range(self.scenario.restarts):
            if self.findings:
                return
            entity = Entity(entity.lifecycle, entity.id, entity.generation + 1)
            self.cover("restarted", "")
            self.relay.start(entity, self.scenario.given)
            self._until_over(entity)

    def _until_over(self, entity: Entity) -> None:
        began = self.loop.time()
        for _ in range(HELP):
            self._run()
            if self.findings:
                return
            entities = [row.entity for row in self.database.rows.values()]
            still = [each for each in entities if not self.is_over(each)]
            if not still:
                for each in entities:
                    self.findings += judge(evidence_of(self, each))
                    self.people.compare_lists_at_end(each)
                self.findings += judge_keys(results_of(self, entity), entity, began)
                return
            if not sum(self.people.help(each) for each in still):
                execution = self.temporal.executions.get(still[0].workflow_id(None))
                status = self.people.status(execution) if execution and execution.open else None
                shown = "it has no workflow" if status is None else _shown(status)
                sent = len(self.database.rows[still[0].id].messages)
                after = f", after {sent} messages" if self.subject.messages else ""
                self.found("stands still", f"{still[0]} {shown}{after}")
                return
        self.found("never ends", f"{entity}: people helped {HELP} times, {self.loop.time():.0f} s")

    def is_over(self, entity: Entity) -> bool:
        """Whether an entity has ended, with its workflow."""
        execution = self.temporal.executions.get(entity.workflow_id(None))
        return self.database.is_final(entity) and (execution is None or not execution.open)

    def _run(self) -> None:
        try:
            self.loop.run_forever()
        except StandsStill:
            return
        except NeverEnds:
            self.found("never ends", f"still under way after {self.loop.time():.0f} s")

    def _drain(self) -> None:
        try:
            for _ in range(3):
                if not (tasks := self.loop.pending()):
                    return
                for task in tasks:
                    task.cancel()
                self.loop.call_soon(self.loop.stop)
                self.loop.run_forever()
        except (StandsStill, NeverEnds):
            pass

    def sent(self, entity: Entity) -> list[Sent]:
        """The messages that the application sent to an entity."""
        texts = [payload for _, payload in self.database.rows[entity.id].messages]
        return [
            Sent(text, began=place, committed=place, generation=entity.generation) for place, text in enumerate(texts)
        ]

    # -- for the other parts

    def span(self, longest: float) -> float:
        """A random number of seconds."""
        return self.random.uniform(0, longest)

    def seed_of(self, text: str) -> int:
        """The seed of the SDK's random numbers of a run."""
        digest = hashlib.sha256(f"{self.scenario.seed} {text}".encode()).digest()
        return int.from_bytes(digest[:8], "big") >> 1

    def renews_after(self) -> int:
        """After how many workflow tasks a new run is suggested to continue as new."""
        return self.scenario.renews or NEVER

    def cover(self, place: str, event: str) -> None:
        """A combination is seen."""
        self._covered[place, event] += 1

    def found(self, kind: str, what: str) -> None:
        """Note an event that must not happen."""
        self.findings.append(Finding(kind, what))

    def start_worker(self, build: int | None = None) -> None:
        """One more worker, of `build` or of the one whose turn it is."""
        app = self.subject.builds[self.next_build() if build is None else build]
        self.workers.append(Worker(self, f"worker {len(self.workers)}", app))
        self.temporal.wake()

    def next_build(self) -> int:
        """The build of the next worker. A rollout goes on: what takes the place of a worker is of the newest one."""
        started = len(self.workers)
        return self._builds[started] if started < len(self._builds) else max(self._builds)

    def deploy(self) -> None:
        """Workers of the newest build take the place of all others."""
        self._builds = (max(self.subject.builds),)
        for each in self.workers:
            each.stop()
        self.start_worker()

    def worker_for(self, lifecycle: str) -> Worker | None:
        """A worker that can take a task now."""
        able = [each for each in self.workers if each.takes_work and lifecycle in each.app.lifecycles]
        return self.random.choice(able) if able else None

    def host_of(self, lifecycle: str, app: App | None = None) -> sdk.Host:
        """Makes the SDK's instances of a lifecycle for a worker of `app`."""
        app = app or self.subject.app_with(lifecycle)
        known = self._hosts.get((id(app), lifecycle))
        if known is None:
            kind = app.lifecycle(lifecycle)
            known = self._hosts[id(app), lifecycle] = sdk.Host(kind, self.converter, (), (), "default", "explored")
        return known

    def count_activation(self, run: Run) -> None:
        """A workflow is entered; one that goes round without end is stopped."""
        self._activations += 1
        if self._activations == MOST_ACTIVATIONS:
            self.found("runs without end", f"{run.workflow_id}: {MOST_ACTIVATIONS} activations")
            self.temporal.terminate(run.workflow_id)

    def count_run(self, execution: Execution) -> None:
        """A workflow continues as new; one that does so without end is stopped."""
        self.cover("continued as new", str(min(len(execution.run.run_ids), 5)))
        if len(execution.run.run_ids) > MOST_RUNS:
            self.found("renews without end", f"{execution.run.workflow_id}: {MOST_RUNS} runs")
            execution.close("terminated")

    def workflow_task_failed(self, run: Run, why: BaseException) -> None:
        """Workflow code has raised what fails its task. A server would repeat that for ever, but for a bug of which
        there is a newer build: the task times out, and is made again."""
        if BUG in str(why):
            self.cover("workflow task fails", "a bug")
            return
        cause = why.__cause__
        self.found("workflow task fails", f"{run.workflow_id}: {why}" + (f": {cause}" if cause else ""))
        self.temporal.terminate(run.workflow_id)


def _shown(status: Any) -> str:
    """The answer of the query `status`, in a line."""
    effects = ", ".join(f"{each['effect']} {each['status']}" for each in status["effects"]) or "no effect under way"
    attention = f", attention: {status['attention']}" if status["attention"] else ""
    return f"is in {status['state']}, with {effects}{attention}"


class _Seeded:
    """In place of the module `secrets`, where what it returns stands in a record."""

    def __init__(self, world: World) -> None:
        self._world = world

    def token_hex(self, count: int) -> str:
        return self._world.random.randbytes(count).hex()


@contextmanager
def _deterministic(world: World) -> Iterator[None]:
    """The same seed gives the same bytes: tokens and times that are put on record come from the world."""
    clock = property(lambda host: current_worker.get().now)
    with standing_in(
        (attempts, "secrets", _Seeded(world)),
        (TemporalHost, "now", clock),
        (attempts, "LARGEST_RECEIPT", LARGEST_RECEIPT),
    ):
        yield


@contextmanager
def _watching(world: World) -> Iterator[None]:
    """Show the world what `perform` answers, beside the author."""

    def begins(performance: Performance[Any, Any], again: bool) -> None:
        if again:
            world.observed.performed_again.add(str(performance.key))
        if performance.settles:  # the terms are those of the doubt, and not of the attempts
            return
        if performance.record.own is not None and performance.record.own.doubt is not None:
            world.observed.policies[str(performance.key)] = performance.record.own.doubt
        world.observed.note_expiry(str(performance.key), performance.expires_at)

    def answered(performance: Performance[Any, Any], end: Answer) -> None:
        if not workflow.unsafe.is_replaying():
            assert world.task is not None
            world.task.answers.append((str(performance.key), end))

    def ends(write: Write, answers: Answers) -> None:
        if workflow.unsafe.is_replaying():
            return
        world.observed.note_ordered_end(write, answers, world.loop.time())

    def moves(write: Write, answers: Answers) -> None:
        if not workflow.unsafe.is_replaying():
            world.observed.note_ordered_state(write, answers)

    with watching(answered, ends, begins, moves):
        yield
