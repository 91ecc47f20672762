"""The verdict of the exploration's judge on generated lifecycles, which ran on real servers.

The results of `perform` are not on record, and the worker that holds them may be killed at any instant. A replay of the
histories returns the same results again. The workers store those of each task that puts an end on record, because
such a task may be lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from perdure import PerdurePlugin
from perdure._workflow.performing import Performance
from perdure.contracts.keys import Entity
from perdure.testing.exploring.answers import Answer, watching, with_those_at_the_end
from perdure.testing.exploring.database import belongs
from perdure.testing.exploring.evidence import Account, Evidence, PerformResult
from perdure.testing.exploring.judge import judge
from perdure.testing.exploring.other_side import SECRET
from perdure.testing.exploring.scenario import Finding
from perdure.testing.exploring.sql_record import SqlRecord
from tests.chaos import generated, generated_bodies
from tests.chaos.answers import Kept
from tests.chaos.company import Company
from tests.chaos.histories import histories
from tests.chaos.other_side import OtherSide
from tests.world import World


class Judge:
    """Judges one after the other.

    Args:
        record: what the database has, once all is over.

    Attributes:
        runs: how many runs were replayed.
        judged: how many lifecycles were judged.
        kept: of how many of them a worker has kept what they had returned at their end.
        answers: how many answers of `perform` those had.
    """

    def __init__(self, world: World, other_side: OtherSide, company: Company, record: SqlRecord, answers: Kept) -> None:
        self._world, self._other_side, self._company, self._record = world, other_side, company, record
        self._answers = answers
        self.runs = self.answers = self.judged = self.kept = 0
        plugin = PerdurePlugin(generated_bodies.older, world.config)
        self._replayer = Replayer(workflows=[], plugins=[plugin], workflow_runner=UnsandboxedWorkflowRunner())

    async def judge(self, entity: Entity) -> list[Finding]:
        """What is wrong with one; none, where it is not over."""
        results: dict[str, list[PerformResult]] = defaultdict(list)
        for history in await histories(self._world, entity):
            with _noting(history, results):
                result = await self._replayer.replay_workflow(history, raise_on_replay_failure=False)
            if result.replay_failure is not None:
                return [Finding("a replay differs", f"{entity}: {history.run_id}: {result.replay_failure}")]
            self.runs += 1
        self.answers += sum(map(len, results.values()))
        end = entity, self._record.version(entity)
        self.judged += 1
        self.kept += end in self._answers
        # The task that is blameless may be the one whose write was applied.
        verdicts = (
            [*judge(self._evidence(entity, with_those_at_the_end(results, each)))]
            for each in self._answers.at_the_end(*end) or [{}]
        )
        return min(verdicts, key=len)

    def _evidence(self, entity: Entity, results: dict[str, list[PerformResult]]) -> Evidence:
        record = self._record
        effects = {key: view for key, view in record.effects.items() if belongs(key, entity)}
        accounts = {key: each for key, each in self._other_side.accounts.items() if belongs(key, entity)}
        for key, view in effects.items():
            accounts.setdefault(key, Account()).calls = view.attempts  # what was lost on the way is a call as well
        # What arrives later than that after its sender's last check is excluded by design.
        late = {key for key in accounts if any(each > generated.SETTLE for each in self._other_side.late[key])}
        kept = record.snapshot(entity.lifecycle, entity.id)
        return Evidence(
            entity,
            results={key: each for key, each in results.items() if key not in late},
            accounts={key: each for key, each in accounts.items() if key not in late},
            effects={key: each for key, each in effects.items() if key not in late},
            moves=record.moves(entity),
            states=generated.Generated.declared,
            settled_by_person=self._company.confirmed,
            tasks_lost=True,
            sent=[*self._company.sent[entity.id].values()],
            received=kept["received"] if kept else None,
            secret=SECRET,
        )


@contextmanager
def _noting(history: WorkflowHistory, results: dict[str, list[PerformResult]]) -> Iterator[None]:
    """Note what `perform` returns while a history is replayed, with the time at which that was committed."""
    last = len(history.events) - 1

    def answered(performance: Performance[Any, Any], end: Answer) -> None:
        completed = history.events[min(workflow.info().get_current_history_length(), last)]
        results[str(performance.key)].append(PerformResult(end, completed.event_time.ToNanoseconds() / 1e9))

    with watching(answered, lambda write, answers: None):
        yield
