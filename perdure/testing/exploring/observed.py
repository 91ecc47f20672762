"""The facts about one scenario that its judge needs beside the records: what code and people did, and what was lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from perdure._wire.writes import FenceOp, Write
from perdure.contracts.keys import Entity
from perdure.testing.exploring.answers import Answer, Answers, with_those_at_the_end
from perdure.testing.exploring.database import belongs
from perdure.testing.exploring.evidence import PerformResult


class Observed:
    """What the world notes while it plays a scenario.

    Attributes:
        results: what `perform` returned, by key; more than once where a run was started from its top.
        ending: entities whose end a run has ordered, perhaps in a task that was lost.
        acknowledged: texts of the author's updates that were answered, and that Temporal has not lost since.
        performed_again: keys that a run has performed more than once, that had ended before a retry, or whose end was
            lost with the history of a run.
        policies: doubt policies of performances that have one of their own, by key.
        expires_at: time after which no attempt begins, by key; None = the author's code has performed it without one.
        settled_by_person: keys of effects that a person has resolved, or a message has confirmed.
        told_in_doubt: keys of effects of which a run had told the author that they are in doubt, before it ordered a
            state.
        skipped: states whose write came late, or was not answered.
        entering: states that the attempts of an effect were to enter, by key.
        records_lost: whether the database has lost the records of attempts.
        on_record_at_end: keys of the effects of an entity that the fence had on record when it ended.
        newer_than_end: keys of the effects of an entity that the fence had on record by a later order than its end.
        histories_lost: whether Temporal has lost the history of a run.
        tasks_lost: whether a workflow task was lost.
        from_record: whether a run has continued from the record.
        workers_lost: whether a worker was killed, frozen or cut off.
    """

    def __init__(self) -> None:
        self.results: dict[str, list[PerformResult]] = defaultdict(list)
        self.ending: set[Entity] = set()
        self.acknowledged: dict[Entity, list[str]] = defaultdict(list)
        self.policies: dict[str, Any] = {}
        self.expires_at: dict[str, datetime | None] = {}
        self.settled_by_person: set[str] = set()
        self.performed_again: set[str] = set()
        self.told_in_doubt: set[str] = set()
        self.skipped: dict[Entity, set[str]] = defaultdict(set)
        self.entering: dict[str, set[str]] = defaultdict(set)
        self.records_lost: bool = False
        self.on_record_at_end: dict[Entity, set[str]] = defaultdict(set)
        self.newer_than_end: dict[Entity, set[str]] = defaultdict(set)
        self.histories_lost: bool = False
        self.tasks_lost: bool = False
        self.from_record: bool = False
        self.workers_lost: bool = False
        self._results_at_end: dict[tuple[Entity, int], dict[str, list[PerformResult]]] = defaultdict(
            lambda: defaultdict(list)
        )
        """What `perform` had returned, by key, when a run ordered its end; by the version of that write."""
        self._ends: dict[Entity, int] = {}
        """The version of the write that ended each entity."""
        self._answered: dict[tuple[Entity, int], set[str]] = {}
        """Keys that a run had performed when it ordered a state, by the version of that write; where two tasks have
        ordered the same version, those that both had performed."""

    def note_expiry(self, key: str, at: datetime | None) -> None:
        """Note that the author's code performs an effect that expires then; None = that does not."""
        before = self.expires_at.get(key, at)
        self.expires_at[key] = None if at is None or before is None else max(at, before)

    def note_result(self, key: str, end: Answer, at: float) -> None:
        """Note what `perform` has returned in a task that was committed."""
        self.results[key].append(PerformResult(end, at))

    def note_ordered_end(self, write: Write, answers: Answers, at: float) -> None:
        """Note that a run orders the end of an entity by this write, and what `perform` had returned until then. Two
        tasks in turn can order the same version, where Temporal's clock was put back between them."""
        entity = Entity(write.lifecycle, write.id, write.generation)
        self.ending.add(entity)
        noted = self._results_at_end[entity, write.version]
        for key, each in answers.items():
            noted[key] += [PerformResult(end, at) for end in each]

    def note_ordered_state(self, write: Write, answers: Answers) -> None:
        """Note what `perform` had returned when a run ordered a state by this write."""
        self.told_in_doubt |= {key for key, each in answers.items() if PerformResult(each[-1], 0.0).in_doubt}
        if write.move is not None and write.fence is not None and write.fence.op is FenceOp.BEGIN:
            self.entering[write.fence.key].add(write.move.state)
        at = Entity(write.lifecycle, write.id, write.generation), write.version
        self._answered[at] = {*answers} & self._answered.get(at, {*answers})

    def results_at_end(self, entity: Entity, version: int) -> Mapping[str, list[PerformResult]]:
        """The results under all keys, with those of the tasks that have put the ends of this entity on record.

        Args:
            version: the version of the write that ended the entity.
        """
        self._ends[entity] = version
        results: Mapping[str, list[PerformResult]] = self.results
        for ended, at in self._ends.items():  # an earlier generation's effects are on record as well
            if ended.id == entity.id:
                results = with_those_at_the_end(results, self._results_at_end[ended, at])
        return results

    def lose_history(self, entity: Entity, version: int) -> None:
        """Note that Temporal has lost the history of an entity: updates that only a history had are gone. The next run
        performs again what this one performed after it had ordered the state that the mirror shows.

        Args:
            version: the version of that state.
        """
        self.histories_lost = True
        self.acknowledged.clear()
        known = self._answered.get((entity, version), set())
        self.performed_again |= {key for key in self.results if belongs(key, entity) and key not in known}

    def lose_records(self) -> None:
        """Note that the database has lost records of attempts, and snapshots with updates."""
        self.records_lost = True
        self.acknowledged.clear()
