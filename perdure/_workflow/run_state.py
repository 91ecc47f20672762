"""What one run of a lifecycle knows: plain data, and what it hands to the next run. It writes nothing and waits for
nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic import BaseModel
from temporalio import workflow

from perdure._wire.carried import CARRIED, Carried, Remembered
from perdure._wire.requests import OperatorRequest
from perdure._wire.status import LifecycleStatus
from perdure._workflow.author import Author
from perdure._workflow.leaving import fail
from perdure._workflow.ledger import Ledger
from perdure.contracts.keys import Entity
from perdure.contracts.scopes import scope_of_queue, scope_of_workflow
from perdure.errors import DeclarationError, InvalidEntity, NotThisDatabase


class Asked:
    """What people have asked of a run.

    Attributes:
        retry: a retry that was granted, and that nothing was done about yet.
        waits_for_retry: the author's code waits for one.
        cancel: the end was requested.
        cancelled_before: it was, before the first run had begun.
        cancelling: the cancel has ended the author's `run` in this run; their `cancelling` is under way, or done.
        was_cancelling: likewise, here or in a run before: started from its top, `run` gets no further than it was.
    """

    def __init__(self, carried: Carried) -> None:
        self.retry = carried.retry
        self.waits_for_retry = False
        self.cancel = carried.cancel
        self.cancelled_before = carried.cancel is not None and carried.state is None
        self.cancelling = False
        self.was_cancelling = carried.cancelling

    @property
    def ending(self) -> bool:
        """Whether the end was requested, and it has not begun."""
        return self.cancel is not None and not self.cancelling

    def for_retry(self, asked: OperatorRequest) -> None:
        """A retry was requested."""
        self.retry = asked

    def await_retry(self, *, anew: bool) -> None:
        """The author's code waits for a retry from now on: for one that is requested `anew`, or for the one that the
        run before was asked for, and has done nothing about."""
        if anew:
            self.retry = None
        self.waits_for_retry = True

    def stop_awaiting_retry(self) -> None:
        """The author's code goes on."""
        self.waits_for_retry = False

    def retry_is_done(self) -> None:
        """What the retry was requested for has begun."""
        self.retry = None

    def for_cancel(self, asked: OperatorRequest) -> None:
        """The end was requested."""
        self.cancel = asked

    def begin_cancelling(self) -> OperatorRequest:
        """The cancel has ended the author's `run`; the request."""
        assert self.cancel is not None
        self.cancelling = self.was_cancelling = True
        return self.cancel


class Standstill:
    """Whether a run stands still, since today's code can't read something that is on record.

    Attributes:
        attention: what can't be read, in a sentence; None once it can.
        stands: whether it stands still.
        times: how often it stood still before.
        looks: somebody asks it to look whether the code can read it now.
    """

    def __init__(self) -> None:
        self.attention: str | None = None
        self.stands = False
        self.times = 0
        self.looks = False

    def begin(self, attention: str) -> None:
        """It stands still from now on."""
        self.attention, self.stands = attention, True

    def look(self) -> None:
        """Somebody asks it to look."""
        self.looks = True

    def has_looked(self) -> None:
        """It has looked, and waits to be asked again."""
        self.looks = False

    def readable(self) -> None:
        """The code can read it now."""
        self.attention = None

    def give_up(self) -> None:
        """The end was requested."""
        self.attention, self.stands = None, False

    def end(self) -> None:
        """It goes on."""
        self.stands, self.times = False, self.times + 1


class RunState:
    """What one run knows.

    Attributes:
        entity: whose lifecycle it is.
        declared: the states of the lifecycle.
        state: the one that it is in; `since`: when it came to it.
        how_far: one line of the author's, for whoever looks.
        restored: the snapshot that the run before has left.
        catching_up: `run` was started from its top, and has not come to where the run before was: until then, what that
            did is not done again.
        behind: `run` was started from its top, and has not come to the state that it is in. It can have ended to catch
            up all the same: where the database lost a record, it waits for a person on the way.
        moved: this run has done more than catch up.
        effects: what became of them.
        asked: what people have asked of it.
        standstill: whether it stands still.
        last_message: ordinal of the last message from the outbox: they come in order.
        expects: ordinal of the last one that is on its way again.
        version: of the newest write that this run knows of, or has ordered.
        on_record: the newest version that this run knows to be on record.
        began: when the first run of this chain was started, in microseconds; 0 = before this was known.
        started_at: when the entity was, in this generation.
        gaps: an effect without a record may have been performed all the same.
        born: the database has the entity.
        leaving: it goes on in a new run in a moment; what is asked now is to be asked again there.
        overtaken: the database has reported that it is over; nothing that waits in this run goes on.
    """

    def __init__(self, author: Author) -> None:
        info = workflow.info()
        carried = workflow.memo_value(CARRIED, None, type_hint=Carried) or Carried(born=False)
        self.entity = _entity(info.workflow_id, info.workflow_type, carried.generation)
        self.declared = author.declared
        self.state: str = self.declared.today(carried.state or str(self.declared.initial))
        self.since = carried.since or workflow.now()
        self.indexed = carried.indexed
        """The states that it shows to need a person in a search attribute; None = it shows nothing there."""
        self._why: str | None = None
        """Why it is in its state."""
        self.how_far: str | None = None
        self.restored = carried.snapshot
        self.restored_well = self.restored is None
        """The author's lifecycle holds what is on record of it, so that its snapshot holds all of it."""
        self.catching_up = carried.state is not None
        self.behind = self.catching_up
        self.moved = False
        self.effects = Ledger(author.effects, carried)
        self.asked = Asked(carried)
        self.standstill = Standstill()
        self.last_message = carried.heard
        self.expects = carried.expects
        self.version = carried.version
        self.on_record = 0
        self.began = _began(carried)
        self.started_at = carried.started_at or info.workflow_start_time
        self.gaps = carried.gaps
        self.born = carried.born
        self.leaving = False
        self.overtaken = False

    @property
    def final(self) -> bool:
        """Whether the lifecycle is over."""
        return self.declared.on_record(self.state).final

    @property
    def attention(self) -> str | None:
        """Why a person is needed, whatever the state: it stands still, or an effect needs one."""
        return self.standstill.attention or self.effects.attention

    def attention_in(self, state: str) -> str | None:
        """Why a person is needed in `state`, if one is."""
        declared = self.declared.on_record(state)
        if declared.final:
            return None
        if self.attention or not declared.attention:
            return self.attention
        return (self._why if state == self.state else None) or f"{state} needs a person"

    def attention_word(self) -> str | None:
        """Why a person is needed, as the search attribute has it: names that the author declared, and no text."""
        if self.indexed is None or self.final:
            return None
        if self.standstill.attention is not None:
            return "stands still"
        if word := self.effects.attention_word:
            return word
        # Not by today's declaration: what is shown stands in the history.
        return f"state: {self.state}" if self.state in map(self.declared.today, self.indexed) else None

    def status(self) -> LifecycleStatus:
        """Where it is, and what it waits for."""
        asked = self.asked
        return LifecycleStatus(
            lifecycle=self.entity.lifecycle,
            id=self.entity.id,
            generation=self.entity.generation,
            state=self.state,
            version=self.on_record,
            since=self.since,
            final=self.final,
            attention=self.attention_in(self.state),
            how_far=self.how_far,
            waits_for_retry=asked.waits_for_retry and asked.retry is None and asked.cancel is None,
            effects=[each.status() for each in self.effects.performances.values()],
        )

    def check_move(self, origin: str, state: str) -> None:
        """Raise `DeclarationError` where `origin` may not lead to `state`."""
        if not self.declared.allows(origin, state):
            follow = ", ".join(self.declared.followers(origin)) or "none, it is final"
            raise DeclarationError(f"{self.entity}: {origin!r} may not lead to {state!r}; declared are: {follow}")

    def today(self, state: str | None) -> str | None:
        """Today's name of a state on record."""
        return None if state is None else self.declared.today(state)

    def be_in(self, state: str, why: str | None = None) -> bool:
        """Be in `state` from now on, for that reason; whether that is another one."""
        if state == self.state:
            return False
        self._why = why
        self.state, self.since, self.behind = state, workflow.now(), False
        return True

    def overtake(self, state: str | None) -> None:
        """The database has reported that it is over, in `state`; None: it is in a newer generation."""
        self.state, self.overtaken = self.declared.today(state or self.state), True

    def leave(self) -> None:
        """It goes on in a new run in a moment."""
        self.leaving = True

    def take_round(self, generation: int) -> None:
        """The entity was restarted more often than whoever started this run knew."""
        self.entity = replace(self.entity, generation=generation)

    def be_born(self) -> None:
        """The database has the entity."""
        self.born = True

    def arrived(self) -> None:
        """The run is where the one before it was."""
        self.catching_up = False

    def step_towards(self, state: str) -> bool:
        """`run` enters `state` while it catches up: whether it is still on its way after that."""
        self.catching_up = state != self.state
        return self.catching_up

    def come_to(self, state: str) -> None:
        """`run` names a state that it is to be in."""
        self.behind = self.behind and state != self.state

    def has_passed(self, state: str) -> bool:
        """Whether an earlier run has left `state` for the state that this one is in, and has not come to."""
        on_the_way = not self.declared.allows(self.state, state) and self.declared.leads(state, self.state)
        return self.behind and on_the_way

    def has_moved(self) -> None:
        """This run has done more than catch up."""
        self.moved = True

    def next_version(self) -> int:
        """Microseconds, strictly growing through resets, renewals and recovery."""
        self.version = max(int(workflow.now().timestamp() * 1_000_000), self.version + 1)
        return self.version

    def learn(self, version: int) -> None:
        """Never fall behind what is on record."""
        self.on_record = max(self.on_record, version)
        self.stay_ahead(version)

    def stay_ahead(self, version: int) -> None:
        """Let all versions to come be newer than that of an effect's record, which lets no older order begin."""
        self.version = max(self.version, version)

    def hear(self, ordinal: int) -> bool:
        """Whether the message of that place is new; from now on it is not."""
        if ordinal <= self.last_message:
            return False
        self.last_message = ordinal
        return True

    def report(self, how_far: str | None) -> None:
        """The author reports how far it is."""
        self.how_far = how_far

    def has_restored(self) -> None:
        """The author's lifecycle has read the snapshot that the run before has left."""
        self.restored_well = True

    def kept(self, author: Author) -> tuple[Any, int]:
        """The snapshot, and the last message that it holds: none without one, so that all would be told again."""
        taken: BaseModel | None = None
        if not self.standstill.stands or self.restored_well:
            taken = author.snapshot()
        return (self.restored, 0) if taken is None else (taken.model_dump(mode="json"), self.last_message)

    def remembered(self) -> Any:
        """What a run that goes on from the mirror's record needs beside the snapshot; None = nothing."""
        effects, asked = self.effects, self.asked
        return (
            Remembered(
                again=effects.again, ended=effects.ended, cancel=asked.cancel, cancelling=asked.was_cancelling
            ).model_dump(mode="json", exclude_defaults=True)
            or None
        )

    def memo(self, author: Author) -> dict[str, Any]:
        """What the next run is handed."""
        return {
            CARRIED: Carried(
                generation=self.entity.generation,
                version=self.version,
                state=self.state,
                since=self.since,
                snapshot=self.kept(author)[0],
                retry=self.asked.retry,
                cancel=self.asked.cancel,
                cancelling=self.asked.was_cancelling,
                began=self.began,
                started_at=self.started_at,
                gaps=self.gaps,
                indexed=self.indexed,
                heard=self.last_message,
                **self.effects.carried(),
            )
        }


def _began(carried: Carried) -> int:
    if carried.began is not None:
        return carried.began
    goes_on = carried.state is not None
    return 0 if goes_on else microseconds(workflow.info().workflow_start_time)


def microseconds(at: datetime) -> int:
    """Since 1970, as versions and epochs are counted."""
    return int(at.timestamp() * 1_000_000)


def _entity(workflow_id: str, lifecycle: str, generation: int) -> Entity:
    try:
        entity = Entity.of_workflow(workflow_id, lifecycle, generation)
    except InvalidEntity as error:
        fail(str(error), InvalidEntity.__name__)
    queue = workflow.info().task_queue
    # A replay has a queue of its own. What is refused is over with its first task, and is never replayed.
    if not workflow.unsafe.is_replaying() and scope_of_queue(queue) != scope_of_workflow(workflow_id):
        fail(
            f"workflow id {workflow_id!r} is of another scope than the task queue {queue!r}: nothing was done",
            NotThisDatabase.__name__,
        )
    return entity
