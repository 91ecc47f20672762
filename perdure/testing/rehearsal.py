"""`rehearse`: runs a lifecycle against a script, in milliseconds and without servers.

It drives the SDK's own workflow code on a virtual clock, with scripted results in the activity code that a worker runs,
and fence and mirror in memory. It does not replace tests on real servers: it does not check determinism, and replays
nothing.
"""

from __future__ import annotations

import json
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
from perdure.app import contracts_of, name_of
from perdure.client.naming import input_text
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
    """The result of a rehearsal.

    Attributes:
        states: the states after the first one, in order.
        end: the final state; None if the lifecycle waits for an event that never comes.
        status: the answer of the query `status` at the end.
        effects: the fence's view of each effect at the end, by key, in order of their first attempt.
        outcomes: the outcomes of each effect's attempts by key, oldest first; `in_doubt` = the outcome stayed unknown.
        answers: the answer to each message, in the order of the messages.
        attention: why the entity needs a person, by the mirror, or None.
        took: virtual time until the end.
        runs: number of runs, chained by continue-as-new.
        writes: number of writes of these runs to the database.
        unused: entries of the script that never happened, by contract.
        snapshot: the last recorded snapshot, as JSON data.
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
        """The input of each call."""
        return [call.given for call in self._calls[contract]]

    @property
    def keys(self) -> list[Key]:
        """Keys of all effects, in order of their first attempt."""
        return list(self.effects)

    @property
    def waits_for(self) -> str | None:
        """What the lifecycle waits for: `resolve <effect>`, `retry_now`, or `a message`; None if it has ended."""
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
    """Run a lifecycle until it ends, or until no further event can happen. A run that waits for other code, as one that
    can't read a receipt, has no further event but messages.

    Pauses, back-off, time-outs and `asyncio.sleep` take no time.

    Args:
        lifecycle: the class.
        given: the input.
        script: the result of each call, by the contract of the effect, look-up or step; see `perdure.testing.script`.
        messages: updates, signals and queries, with their moments; see `perdure.testing.messages`.
        allow_unused: whether entries of the script that never happened, and messages whose moment never came, are no
            error. `unused` and `answers` show them.
        entity_id: the app's id of the entity.
        started_directly: whether the lifecycle is started through Temporal, so that its first write records it.
        renew_at_every_wait: whether the lifecycle continues as new whenever it can. States and calls must stay the
            same; otherwise `run` keeps data in local variables instead of its snapshot.
        start: virtual time of the start, with a time zone.
        seed: determines the jitter of the pauses.

    Returns:
        The result of the rehearsal.

    Raises:
        ScriptError: the script or a message does not fit the lifecycle, a call went past the script's end, calls or
            messages are left over, or a message handler waits for ever after the lifecycle has ended.
        InvalidInput: `given` does not fit the lifecycle's input type, or has too many bytes. A signal that
            `Client.signal` would refuse is a ScriptError.
        RunawayWorkflow: workflow code ran for ten seconds of processor time without waiting. The message has the place.
        Exception: the exception of a bug in workflow code. A server would repeat the workflow task until it is fixed.
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
        [json.loads(input_text(entity, lifecycle, given))],
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
        post = Post(entity, lifecycle, server)
        for message in messages:
            post.send(message)
        try:
            end = await _run(server, bugs)
            status = await server.ask("status", as_type=LifecycleStatus)
            if status.final and end.kind == "blocked":
                raise ScriptError(
                    f"it is {status.state!r}, and its workflow never ends: a message handler waits for something that "
                    "never comes"
                )
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
    """Whether a run may continue in a new one. It may not before an event has happened in it, or it would never end.

    Args:
        seen: number of the run, and number of its events: messages, timers, calls.
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
    attention = f" ({status.attention})" if status.attention else ""
    if left:
        raise ScriptError(
            f"never happened: {'; '.join(left)}. It stands in state {status.state!r}{attention}. "
            "Leave them out, or pass allow_unused=True"
        )


def _contracts(lifecycle: type[Lifecycle[Any, Any]]) -> dict[str, Contract]:
    return {name: contract for contract in contracts_of(lifecycle) for name in contract.names}
