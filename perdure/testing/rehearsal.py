"""`rehearse`: runs a lifecycle against a script, in milliseconds and without servers.

It drives the SDK's own workflow code on a virtual clock, with the bodies' scripted ends inside the activity code
that a worker runs, and fence and mirror in memory. It does not replace tests on real servers: no sandbox watches
over determinism, and nothing is replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import groupby
from typing import Any, Generic, TypeVar

from perdure._activity.execution import Fitting
from perdure._store.memory import MemoryStore
from perdure._wire.carried import CARRIED, Carried
from perdure._wire.names import WAKE
from perdure._wire.status import LifecycleStatus
from perdure._wire.terms import all_terms
from perdure._wire.writes import EffectView
from perdure._workflow.lifecycle import Lifecycle
from perdure.app import contracts_of, input_json, name_of
from perdure.contracts.effects import Effect, Lookup
from perdure.contracts.keys import Entity, Key
from perdure.contracts.outcomes import EffectStatus
from perdure.contracts.steps import Step
from perdure.testing.bugs import Bugs
from perdure.testing.messages import Answered, Message, Post
from perdure.testing.recorded import Recorded
from perdure.testing.script import Calls, Contract, Script, ScriptError
from perdure.testing.server import START, RunEnd, VirtualWorkflow, WorkflowTaskFailed
from perdure.testing.stage import Call, Stage

I = TypeVar("I")  # noqa: E741 - the field's own letter for an input
S = TypeVar("S", bound=StrEnum)
In = TypeVar("In")


@dataclass(frozen=True)
class Rehearsal(Generic[S]):
    """What was seen.

    Attributes:
        states: the states that it entered after the first one, in order.
        end: the final state; None if it waits for something that never comes.
        status: the answer of the query `status` at the end.
        effects: what the fence knows at the end, by key, in the order in which they were begun.
        outcomes: by key: what became of each attempt, oldest first; `in_doubt` = nobody learned how it ended.
        answers: what became of each message, in the order in which they were given.
        attention: why the mirror says that it needs a person; None if it does not.
        took: virtual time until the end.
        runs: how many runs there were, chained by continue-as-new.
        writes: how many writes they made to the database.
        unused: entries of the script that never happened, by contract.
        snapshot: the last one on record, as JSON data.
    """

    states: list[S]
    end: S | None
    status: LifecycleStatus
    effects: dict[Key, EffectView]
    outcomes: dict[Key, list[EffectStatus]]
    answers: list[Answered]
    attention: str | None
    took: timedelta
    runs: int
    writes: int
    unused: dict[Contract, list[Any]]
    snapshot: Any
    _calls: dict[Contract, list[Call]] = field(repr=False)

    def calls(self, contract: Contract) -> int:
        """How often the body of an effect, look-up or step was called."""
        return len(self._calls[contract])

    def inputs(self, contract: Effect[In, Any] | Lookup[In, Any] | Step[In, Any]) -> list[In]:
        """What it was called with, each time."""
        return [call.given for call in self._calls[contract]]

    @property
    def keys(self) -> list[Key]:
        """Keys of all effects that were begun, in that order."""
        return list(self.effects)

    @property
    def waits_for(self) -> str | None:
        """What it waits for at the end: `resolve <effect>`, `retry_now`, or `a message`; None if it is over."""
        if self.end is not None:
            return None
        if parked := [each.effect for each in self.status.effects if each.parked]:
            return f"resolve {', '.join(parked)}"
        return "retry_now" if self.status.waits_for_retry else "a message"


async def rehearse(
    lifecycle: type[Lifecycle[I, S]],
    given: I,
    script: Calls,
    *,
    messages: Sequence[Message] = (),
    allow_unused: bool = False,
    entity_id: str = "1",
    started_directly: bool = False,
    renew_at_every_wait: bool = False,
    start: datetime = START,
    seed: int = 0,
) -> Rehearsal[S]:
    """Run a lifecycle until it is over, or until nothing can happen to it any more.

    Pauses, back-off, time-outs and `asyncio.sleep` take no time.

    Args:
        lifecycle: the class.
        given: its input.
        script: for each effect and look-up (its contract is the key), what happens at each call; see
            `perdure.testing.script`.
        messages: updates, signals and queries, and their moments; see `perdure.testing.messages`.
        allow_unused: calls of the script that never happened, and messages whose moment never came, are no error;
            `unused` and `answers` say which. For scripts that hold more than any one way needs.
        entity_id: the app's id of the entity.
        started_directly: it is started through Temporal, past perdure, so that its first write puts it on record.
        renew_at_every_wait: it continues as new whenever it may. States and calls must stay the same; what is
            lost, a lifecycle kept in local variables instead of its snapshot.
        start: virtual time of the start (aware).
        seed: another one places the pauses elsewhere within their jitter.

    Returns:
        What was seen.

    Raises:
        ScriptError: the script or a message does not fit the lifecycle, a call went past the script's end, or calls or
            messages are left over.
        InvalidInput: `given` is not what the lifecycle takes.
        Exception: a bug in workflow code, as it is; a server would retry the workflow task until it is mended.
    """
    entity = Entity(name_of(lifecycle), entity_id)
    bugs = Bugs()
    contracts = _contracts(lifecycle)
    stage = Stage(
        contracts,
        Script(contracts, script),
        now=lambda: server.now,
        outside=lambda happens, after: server.outside(happens, after=after),
    )
    renewing = Renewing(lambda: (server.runs, server.moves + sum(map(len, stage.calls.values()))))
    memory = MemoryStore(stage.clock, on_late=lambda key: server.signal(WAKE, key))
    recorded = Recorded(memory)
    effects = {name: each for each in lifecycle.effects for name in each.names}
    stage.store = Fitting(recorded, effects.get)
    server = VirtualWorkflow(
        lifecycle,
        [input_json(lifecycle, given)],
        workflow_id=entity.workflow_id(None),
        on_activity=stage.play,
        memo=None if started_directly else {CARRIED: Carried(terms=all_terms(lifecycle.effects))},
        start=start,
        interceptors=[bugs],
        seed=seed,
        follow_continue_as_new=True,
        continue_as_new_when=renewing if renew_at_every_wait else lambda: False,
    )
    if not started_directly:
        memory.start(entity, lifecycle.declared.initial.value)
    async with server:
        post = Post(lifecycle, server)
        for message in messages:
            post.send(message)
        try:
            end = await _run(server, bugs)
            status = await server.ask("status", as_type=LifecycleStatus)
        finally:
            await stage.close()
    moves = memory.moves(entity.lifecycle, entity.id)
    passed = [lifecycle.declared[move.state].name for move in moves]
    answers = post.answers(end.undelivered)
    if not allow_unused:
        _check_left(stage.unused(), answers, status)
    return Rehearsal(
        states=[name for name, _ in groupby([lifecycle.declared.initial, *passed])][1:],
        end=lifecycle.declared[status.state].name if status.final else None,
        status=status,
        effects={Key(key): view for key, view in memory.effects().items() if view.attempts},
        outcomes={Key(key): outcomes for key, outcomes in recorded.outcomes.items()},
        answers=answers,
        attention=moves[-1].attention if moves else None,
        took=end.at - start,
        runs=end.runs,
        writes=recorded.writes,
        unused=stage.unused(),
        snapshot=memory.snapshot(entity.lifecycle, entity.id),
        _calls=stage.calls,
    )


class Renewing:
    """Whether a run may go on in a new one: not before anything has happened in it, else it never gets anywhere.

    Args:
        seen: number of the run, and how much has happened: messages, timers, calls.
    """

    def __init__(self, seen: Callable[[], tuple[int, int]]) -> None:
        self._seen = seen
        self._at_start = 0, 0

    def __call__(self) -> bool:
        run, happened = self._seen()
        if run != self._at_start[0]:
            self._at_start = run, happened
        return happened != self._at_start[1]


async def _run(server: VirtualWorkflow, bugs: Bugs) -> RunEnd:
    try:
        end = await server.run()
    except WorkflowTaskFailed as failed:
        bug: BaseException = bugs.last or failed
    else:
        if end.failure is None:
            return end
        bug = end.failure
    raise bug


def _check_left(unused: dict[Contract, list[Any]], answers: Sequence[Answered], status: LifecycleStatus) -> None:
    left = [f"{contract!r}: {len(entries)} of its calls, next {entries[0]!r}" for contract, entries in unused.items()]
    left += [f"the message {each.name!r}" for each in answers if each.how == "waiting"]
    if left:
        raise ScriptError(
            f"never happened: {'; '.join(left)}. It stands in state {status.state!r}. "
            "Leave them out, or pass allow_unused=True"
        )


def _contracts(lifecycle: type[Lifecycle[Any, Any]]) -> dict[str, Contract]:
    return {name: contract for contract in contracts_of(lifecycle) for name in contract.names}
