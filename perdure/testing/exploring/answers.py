"""What `perform` returns to the author, watched beside the author; and what it had returned when a run ordered its end.

An answer that was given in a workflow task which was lost stands in no history. If that task has put the end on record,
the entity ended with that answer all the same: the task that is made in its place finds that the entity has ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from perdure._wire.writes import Write
from perdure._workflow.performing import Performance
from perdure._workflow.recorder import Recorder
from perdure._workflow.run_state import RunState
from perdure.contracts.outcomes import Done, NotPerformed
from perdure.testing.exploring.evidence import PerformResult
from perdure.testing.exploring.stand_ins import standing_in

Answer: TypeAlias = Done[Any] | NotPerformed
Answers: TypeAlias = Mapping[str, Sequence[Answer]]
"""What a run has returned, by key, oldest first."""


@contextmanager
def watching(
    answered: Callable[[Performance[Any, Any], Answer], None],
    ends: Callable[[Write, Answers], None],
    begins: Callable[[Performance[Any, Any], bool], None] = lambda performance, again: None,
    moves: Callable[[Write, Answers], None] = lambda write, answers: None,
) -> Iterator[None]:
    """Watch the workflows that run in this process.

    Args:
        answered: called with each answer of `perform`, in a replay as well.
        ends: called when a run orders a write that puts its end on record, with all that it has returned until then.
        begins: called when a performance begins, in a replay as well; `True` = its run has performed the key before.
        moves: called when a run orders a write that shows a state, with all that it has returned until then.
    """
    perform, order = Performance.run, Recorder.order
    returned: WeakKeyDictionary[RunState, defaultdict[str, list[Answer]]] = WeakKeyDictionary()
    begun: WeakKeyDictionary[RunState, set[str]] = WeakKeyDictionary()

    async def performed(self: Any, *args: Any) -> Any:
        keys = begun.setdefault(self._run, set())
        begins(self, str(self.key) in keys)
        keys.add(str(self.key))
        end = await perform(self, *args)
        returned.setdefault(self._run, defaultdict(list))[str(self.key)].append(end)
        answered(self, end)
        return end

    def ordered(self: Any, **parts: Any) -> Write:
        write = order(self, **parts)
        if write.move is not None:
            moves(write, returned.get(self._run, {}))
            if write.move.final:
                ends(write, returned.get(self._run, {}))
        return write

    with standing_in((Performance, "run", performed), (Recorder, "order", ordered)):
        yield


def with_those_at_the_end(
    results: Mapping[str, Sequence[PerformResult]], at_the_end: Mapping[str, Sequence[PerformResult]]
) -> dict[str, list[PerformResult]]:
    """What `perform` returned, by key and oldest first: in tasks that were committed, and in the one that has put the
    end on record."""
    both = {key: [*results.get(key, ()), *at_the_end.get(key, ())] for key in {**results, **at_the_end}}
    return {key: sorted(each, key=lambda one: one.at) for key, each in both.items()}
