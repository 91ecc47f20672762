"""The state of one run of a lifecycle, and the data that it passes to the next run. Plain data: no writes, no waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic import BaseModel
from temporalio import workflow

from perdure._wire.carried import CARRIED, Carried, Remembered
from perdure._wire.messages import Message
from perdure._wire.requests import OperatorRequest
from perdure._wire.status import LifecycleStatus
from perdure._wire.writes import storable
from perdure._workflow.apart import Apart
from perdure._workflow.arriving import has_waited, is_ahead
from perdure._workflow.author import Author
from perdure._workflow.leaving import Overtaken, fail, in_handler
from perdure._workflow.ledger import REMEMBERED, Ledger
from perdure._workflow.passing import Events
from perdure.contracts.dumping import dump
from perdure.contracts.keys import Entity
from perdure.contracts.scopes import scope_of_queue, scope_of_workflow
from perdure.errors import DeclarationError, InvalidEntity, InvalidInput, NotThisDatabase

WAITS_LEAD_BACK = "perdure: a branch that has waited leaves a state that needs a person"
CYCLES_ARE_NO_PROGRESS = "perdure: to enter a state of a cycle shows no progress"


class Requests:
    """The requests of people to a run.

    Attributes:
        retry: a retry that was granted and not used yet.
        retry_of: slot of the only effect that it is for; None = of all.
        cancel: the request for the end.
        cancelled_before: whether the end was requested before the first run began.
        cancelling: whether the cancel has ended the author's `run` in this run; `cancelling` is under way, or done.
        was_cancelling: the same, also for an earlier run.
    """

    def __init__(self, carried: Carried) -> None:
        self.retry = carried.retry
        self.retry_of = carried.retry_of
        self._waits_for_retry = 0
        self.cancel = carried.cancel
        self.cancelled_before = carried.cancel is not None and carried.state is None
        self.cancelling = False
        self.was_cancelling = carried.cancelling

    @property
    def waits_for_retry(self) -> bool:
        """Whether a branch of the author's code waits for a retry."""
        return self._waits_for_retry > 0

    @property
    def ending(self) -> bool:
        """Whether the end was requested and has not begun."""
        return self.cancel is not None and not self.cancelling

    @property
    def stopped(self) -> bool:
        """Whether a cancel has ended `run` in an earlier run. In this run, `run` comes to that place and no further."""
        return self.was_cancelling and not self.cancelling

    def for_retry(self, asked: OperatorRequest, slot: str | None = None) -> None:
        """Note a request for a retry, of all effects, or of one."""
        self.retry, self.retry_of = asked, slot

    @contextmanager
    def awaiting_retry(self, *, anew: bool) -> Iterator[None]:
        """Surround a wait of the author's code for a retry: for one that is requested `anew`, or for an unused one of
        the previous run."""
        if anew and not self.waits_for_retry:  # otherwise it is for the branch that waits already
            self.retry_is_done()
        self._waits_for_retry += 1
        try:
            yield
        finally:
            self._waits_for_retry -= 1

    def retry_is_done(self) -> None:
        """Note that the retry was used, or that it is for no branch."""
        self.retry = self.retry_of = None

    def for_cancel(self, asked: OperatorRequest) -> None:
        """The end was requested."""
        self.cancel = asked

    def begin_cancelling(self) -> OperatorRequest:
        """Note that the cancel has ended the author's `run`. Returns the request."""
        assert self.cancel is not None
        self.cancelling = self.was_cancelling = True
        return self.cancel


class Standstill:
    """Whether a run stands still, because today's code cannot read its record.

    Attributes:
        attention: why the record cannot be read, in a sentence; None if it can.
        stands: whether the run stands still.
        times: how often the run stood still before.
        looks: whether a person requested to try again now.
    """

    def __init__(self) -> None:
        self.attention: str | None = None
        self.stands = False
        self.times = 0
        self.looks = False

    def begin(self, attention: str) -> None:
        """Note that the run stands still."""
        self.attention, self.stands = attention, True

    def look(self) -> None:
        """Note a request to try again."""
        self.looks = True

    def has_looked(self) -> None:
        """Note that the run has tried again, and waits for the next request."""
        self.looks = False

    def readable(self) -> None:
        """Note that the code can read the record."""
        self.attention = None

    def give_up(self) -> None:
        """The end was requested."""
        self.attention, self.stands = None, False

    def end(self) -> None:
        """Note that the run continues."""
        self.stands, self.times = False, self.times + 1


@dataclass(eq=False)
class Standing:
    """The state of a run, with its time and its reason, and the state before it, if that needs a person."""

    state: str
    since: datetime
    why: str | None
    came_from: str | None

    def become(self, before: Standing) -> None:
        """Note that the move from `before` to here was not made, for all who go back to here."""
        vars(self).update(vars(before))


class RunState:
    """The state of one run.

    Attributes:
        entity: the entity of the lifecycle.
        declared: the states of the lifecycle.
        state, since: the present state, and the time at which it was entered.
        standing: the same, for those who may go back to it.
        came_from: the state before the present one, if that needs a person.
        how_far: the author's line for people.
        restored: the snapshot of the previous run.
        begun: whether the author's `run` has been called. It restores its snapshot before its first wait.
        behind: whether `run` was started from its top and has not reached the present state. Catching up may have ended
            nevertheless: if the database lost a record, `run` waits for a person on the way.
        goes_round: whether `run` catches up, and has come to the present state, which is in a cycle. It may still be
            rounds behind: only an effect or a wait shows that it has reached the place of the previous run.
        moved: whether this run has done more than catch up.
        effects: the effects of the run.
        requests: the requests of people.
        standstill: whether the run stands still.
        last_message: ordinal of the last message from the outbox. Messages come in order.
        expects: ordinal of the last message that is delivered again.
        events: the times of the events that end waits.
        apart: keeps updates apart from earlier workflow tasks.
        version: version of the newest write that this run has read or ordered.
        on_record: version of the newest write of which the run has the answer.
        began: start of the first run of this chain, in microseconds; 0 = not known.
        started_at: start of the entity in this generation.
        born: see `Write`.
        gaps: whether an effect without a record may have been performed nevertheless.
        other_way_since: see `Carried`.
        recovered: whether this chain of runs continued from the record of an earlier chain.
        continues: whether this run continues an earlier one, of this chain or of another.
        has_record: whether the database has the entity.
        leaving: whether the run continues as new in a moment. Requests that come now must be sent again.
        overtaken: whether the entity is over in the database. No wait of this run continues then.
    """

    def __init__(self, author: Author) -> None:
        info = workflow.info()
        carried = workflow.memo_value(CARRIED, None, type_hint=Carried) or Carried(has_record=False)
        self.entity = _entity(info.workflow_id, info.workflow_type, carried.generation)
        self.declared = author.declared
        self.state: str = self.declared.today(carried.state or str(self.declared.initial))
        self.came_from = self.today(carried.came_from)
        self.since = carried.since or workflow.now()
        self.indexed = carried.indexed
        """The states that it shows to need a person in a search attribute; None = it shows nothing there."""
        self._why = carried.why
        """Why it is in its state."""
        self.standing = Standing(self.state, self.since, self._why, self.came_from)
        self.how_far: str | None = None
        self.restored = carried.snapshot
        self._restored_message = 0 if self.restored is None else carried.last_message
        """Ordinal of the last message that the snapshot of the previous run holds."""
        self.restored_well = self.restored is None
        """Whether the author's lifecycle has restored its snapshot, so that its next snapshot is complete."""
        self.begun = False
        self.continues = self.behind = carried.state is not None
        self._came_to_state = not self.continues
        """Whether `run` has come to the present state, and no earlier round can have done that."""
        self._arrivals = 0
        """How often a branch has shown that the run has reached the place of the previous run."""
        self.goes_round = False
        self.moved = False
        self.events = Events()
        self.apart = Apart(self.events)
        self.effects = Ledger(author.effects, carried)
        self.requests = Requests(carried)
        self.standstill = Standstill()
        self.last_message = carried.last_message
        self._accepted = dict.fromkeys(carried.accepted)
        """Ids of the newest messages that this run, or an earlier one, has accepted, oldest first."""
        self.expects = carried.expects
        self.version = carried.version
        self.on_record = 0
        self.began = _began(carried)
        self.waited_until = carried.waited_until
        self.started_at = carried.started_at or info.workflow_start_time
        self.born = carried.born
        self.gaps = carried.gaps
        self.other_way_since = carried.other_way_since
        self.recovered = carried.recovered
        self.has_record = carried.has_record
        self.leaving = False
        self.overtaken = False

    @property
    def catching_up(self) -> bool:
        """Whether `run` was started from its top and has not reached the place of the previous run. Until then, the
        acts of that run are not repeated."""
        return not (self._came_to_state or self._arrivals)

    @property
    def branch_catches_up(self) -> bool:
        """The same for the present branch of `run`: another branch, or a handler, may have acted meanwhile."""
        return self.catching_up or (self.continues and not is_ahead())

    @property
    def final(self) -> bool:
        """Whether the lifecycle has ended."""
        return self.declared.on_record(self.state).final

    @property
    def attention(self) -> str | None:
        """Why a person is needed in any state: the run stands still, or an effect needs a person."""
        return self.standstill.attention or self.effects.attention

    def attention_in(self, state: str) -> str | None:
        """Why a person is needed in `state`, if one is."""
        declared = self.declared.on_record(state)
        if declared.final:
            return None
        if (attention := self.attention) or not declared.attention:
            return attention
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
        """The present state, and the reason of the present wait."""
        asked = self.requests
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
            waits_for_retry=asked.waits_for_retry and asked.retry is None and not asked.ending,
            effects=[each.status() for each in self.effects.performances.values()],
        )

    def check_move(self, origin: str, state: str) -> None:
        """Check that `origin` may lead to `state`.

        Raises:
            Overtaken: the entity is over in the database, where it has another state.
            DeclarationError: it may not.
        """
        if self.overtaken:
            raise Overtaken(self.state)
        if not self.declared.allows(origin, state):
            follow = ", ".join(self.declared.followers(origin)) or "none, it is final"
            raise DeclarationError(f"{self.entity}: {origin!r} may not lead to {state!r}; declared are: {follow}")

    def today(self, state: str | None) -> str | None:
        """Today's name of a recorded state."""
        return None if state is None else self.declared.today(state)

    def set_state(self, state: str, why: str | None = None) -> bool:
        """Set the present state, and its reason. Returns whether the state has changed."""
        if state == self.state:
            return False
        self.came_from = self._before(state)
        self._why = why
        self.state, self.since = state, workflow.now()
        self.behind = self.behind and in_handler()
        self.standing = Standing(state, self.since, why, self.came_from)
        return True

    def _before(self, state: str) -> str | None:
        """The state before `state`, if that needs a person."""
        if not self.declared.on_record(state).attention:
            return None
        return self.came_from if self.declared.on_record(self.state).attention else self.state

    def stay(self, why: str | None = None) -> None:
        """Note that the present state was entered once more: if an attempt entered it and did not begin, it stays."""
        self._why = why or self._why
        self.standing = replace(self.standing, why=self._why)

    def go_back(self, to: Standing) -> bool:
        """Note that the move from `to` to the present state was not made. Returns whether the state has changed."""
        if to.state == self.state:
            return False
        self.standing = to
        self.state, self.since, self._why, self.came_from = to.state, to.since, to.why, to.came_from
        return True

    def overtake(self, state: str | None) -> None:
        """Note that the entity is over in the database, in `state`; None = it is in a newer generation."""
        self.state, self.overtaken = self.declared.today(state or self.state), True

    @property
    def waits(self) -> bool:
        """Whether an effect, or the author's code, waits for a person or for the time of the next step."""
        performances = self.effects.performances.values()
        return self.requests.waits_for_retry or any(each.parked or each.pausing for each in performances)

    def leave(self) -> None:
        """Note that the run continues as new in a moment."""
        self.leaving = True

    def take_generation(self, generation: int) -> None:
        """Note that the entity was restarted more often than the start of this run shows."""
        self.entity = replace(self.entity, generation=generation)

    def takes_another_way(self, since: datetime) -> None:
        """Note that a lost workflow task may have taken another way, after `since`."""
        at = microseconds(since)
        self.other_way_since = min(at, self.other_way_since or at)

    def note_born(self) -> None:
        """Note that the database has the entity."""
        self.has_record = True

    def arrived(self) -> None:
        """Note that the run has reached the place of the previous run."""
        self._arrivals += 1

    def has_not_arrived(self) -> None:
        """Note that the author's code has withdrawn at once what `arrived` was noted for."""
        self._arrivals -= 1

    def step_towards(self, state: str) -> None:
        """Note that `run` enters `state` while it catches up."""
        if state == self.state:
            self.goes_round = self.may_have_left(state)
            self._came_to_state = not self.goes_round

    def may_have_left(self, state: str) -> bool:
        """Whether an earlier run may have entered `state`, and have come from there to the present state: both are in a
        cycle. A state that needs a person may lead anywhere, so the one before it counts."""
        present = self.came_from or self.state
        if not self.continues or any(self.declared.on_record(each).attention for each in (state, present)):
            return False
        return self.declared.leads(state, present) and workflow.patched(CYCLES_ARE_NO_PROGRESS)

    def come_to(self, state: str) -> None:
        """Note that `run` enters or names `state`. A handler proves nothing about `run`."""
        self.behind = self.behind and (state != self.state or in_handler())

    def leads_on(self, state: str) -> bool:
        """Whether the present state leads to `state`, so that `run` has not passed it. A state that needs a person may
        lead back: while `run` catches up, the state before that one counts."""
        if self.came_from is None or not self.branch_catches_up or not self.declared.on_record(self.state).attention:
            return self.declared.allows(self.state, state)
        if has_waited() and workflow.patched(WAITS_LEAD_BACK):
            return self.declared.allows(self.state, state)
        return state != self.came_from and self.declared.allows(self.came_from, state)

    def has_passed(self, state: str) -> bool:
        """Whether an earlier run has left `state` on the way to the present state, which this `run` has not reached."""
        on_the_way = not self.declared.allows(self.state, state) and self.declared.leads(state, self.state)
        return self.behind and on_the_way

    def has_moved(self) -> None:
        """Note that this run has done more than catch up."""
        self.moved = True

    def has_waited_until(self, at: datetime) -> None:
        """Note that a wait for that time is over."""
        self.waited_until = max(self.waited_until or at, at)

    def next_version(self) -> int:
        """A new version: microseconds, strictly growing through resets, new runs and recovery."""
        self.version = max(int(workflow.now().timestamp() * 1_000_000), self.version + 1)
        return self.version

    def learn(self, version: int) -> None:
        """Note a recorded version, so that the next ones are newer."""
        self.on_record = max(self.on_record, version)
        self.stay_ahead(version)

    def stay_ahead(self, version: int) -> None:
        """Let later versions be newer than that of an effect's record, because an older order cannot begin."""
        self.version = max(self.version, version)

    def accept_message(self, message: Message) -> bool:
        """Note a message. Returns whether it is new: a database that has lost its place gives it another one."""
        if message.ordinal <= self.last_message:
            return False
        self.last_message = message.ordinal
        if message.id in self._accepted:
            return False
        self._accepted[message.id] = None
        if len(self._accepted) > REMEMBERED:
            del self._accepted[next(iter(self._accepted))]
        return True

    def report(self, how_far: str | None) -> None:
        """Set the author's line for people."""
        self.how_far = how_far

    def begin(self) -> None:
        """Note that the author's `run` is called."""
        self.begun = True

    def has_restored(self) -> None:
        """Note that the author's lifecycle has read the snapshot of the previous run."""
        self.restored_well = True

    def kept(self, author: Author) -> tuple[Any, int]:
        """The snapshot, and the last message that it holds. Without a snapshot, all messages are delivered again.

        Raises:
            InvalidInput: JSON does not have one of the snapshot's numbers.
            DeclarationError: the snapshot is no Pydantic model.
        """
        taken: BaseModel | None = None
        # A message may come before `run` has added what it restores: the author's snapshot is not whole until then.
        if self.restored_well or (self.begun and not self.standstill.stands):
            taken = author.snapshot()
        if taken is None:
            return self.restored, self._restored_message
        if not hasattr(taken, "__pydantic_serializer__"):
            raise DeclarationError(
                f"{self.entity}: snapshot() returned a {type(taken).__name__}: return a Pydantic model, or None"
            )
        try:
            reader = None if workflow.unsafe.is_replaying() else taken.__pydantic_validator__
            return dump(taken.__pydantic_serializer__, taken, reader=reader), self.last_message
        except InvalidInput as error:
            raise InvalidInput(f"{self.entity}: the snapshot can't be kept: {error}") from None

    def remembered(self, state: str) -> Any:
        """The data beside the snapshot for a run that continues from the record of `state`; None = nothing."""
        effects, asked = self.effects, self.requests
        return (
            Remembered(
                again=effects.again,
                ended=effects.ended,
                cancel=asked.cancel,
                cancelling=asked.was_cancelling,
                why=storable(self._why) if state == self.state else None,
                came_from=self._before(state),
                waited_until=self.waited_until,
            ).model_dump(mode="json", exclude_defaults=True)
            or None
        )

    def memo(self, author: Author) -> dict[str, Any]:
        """The data for the next run."""
        return {
            CARRIED: Carried(
                generation=self.entity.generation,
                version=self.version,
                state=self.state,
                since=self.since,
                snapshot=self.kept(author)[0],
                retry=self.requests.retry,
                retry_of=self.requests.retry_of,
                cancel=self.requests.cancel,
                cancelling=self.requests.was_cancelling,
                why=self._why,
                came_from=self.came_from,
                began=self.began,
                waited_until=self.waited_until,
                started_at=self.started_at,
                born=self.born,
                gaps=self.gaps,
                other_way_since=self.other_way_since,
                recovered=self.recovered,
                indexed=self.indexed,
                last_message=self.last_message,
                accepted=[*self._accepted],
                **self.effects.carried(),
            )
        }


def _began(carried: Carried) -> int:
    if carried.began is not None:
        return carried.began
    goes_on = carried.state is not None
    return 0 if goes_on else microseconds(workflow.info().workflow_start_time)


def microseconds(at: datetime) -> int:
    """Microseconds since 1970, the unit of versions and epochs."""
    return int(at.timestamp() * 1_000_000)


def _entity(workflow_id: str, lifecycle: str, generation: int) -> Entity:
    try:
        entity = Entity.of_workflow(workflow_id, lifecycle, generation)
    except InvalidEntity as error:
        fail(str(error), InvalidEntity.__name__)
    queue = workflow.info().task_queue
    # A replay has a queue of its own. A refused run ends with its first task, and is never replayed.
    if not workflow.unsafe.is_replaying() and scope_of_queue(queue) != scope_of_workflow(workflow_id):
        fail(
            f"workflow id {workflow_id!r} is of another scope than the task queue {queue!r}: nothing was done",
            NotThisDatabase.__name__,
        )
    return entity
