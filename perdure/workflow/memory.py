"""What a run knows: where it is, what became of its effects, what it was asked for; and what it hands to the next."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from temporalio import workflow

from perdure.contracts.keys import Entity, Key, slot_of
from perdure.contracts.outcomes import Status
from perdure.contracts.scopes import scope_of_queue, scope_of_workflow
from perdure.contracts.terms import all_terms
from perdure.errors import InvalidEntity, NotThisDatabase
from perdure.store.writes import EffectView, Fence, FenceOp
from perdure.workflow.carried import CARRIED, Carried, Remembered, Unsettled, found_on_record
from perdure.workflow.leaving import fail
from perdure.workflow.status import LifecycleStatus

if TYPE_CHECKING:
    from perdure.workflow.lifecycle import Lifecycle
    from perdure.workflow.performing import Performance


class Memory:
    """The lowest layer of a `Conductor`: it knows, and does nothing."""

    def __init__(self, lifecycle: Lifecycle[Any, Any]) -> None:
        info = workflow.info()
        carried = workflow.memo_value(CARRIED, None, type_hint=Carried) or Carried(born=False)
        self.lifecycle = lifecycle
        self.entity = _entity(info.workflow_id, info.workflow_type, carried.round)
        self.states = lifecycle.declared
        self.state: str = self.states.today(carried.state or str(self.states.initial))
        self.since = carried.since or workflow.now()
        self.unread: str | None = None
        """What of its record can't be read, in a sentence, while it stands still."""
        self.how_far: str | None = None
        """What its author says of it to whoever looks."""
        self.recalled = carried.snapshot
        self.recalled_well = self.recalled is None
        """What is on record of what `run` kept is in the lifecycle now, so that its snapshot holds all of it."""
        self.catching_up = carried.state is not None
        """Run starts from its top after a renewal: until it is where it was, what it did then is not redone."""
        self.cancel = carried.cancel
        self.cancelled_before = carried.cancel is not None and not self.catching_up
        """Somebody asked for the end before the first run had begun."""
        self.cancelling = False
        """`run` was ended by a cancel, and what the author has for that is under way."""
        self.was_cancelling = carried.cancelling
        """A cancel has ended `run`, here or in a run before: started from its top, it gets no further than it was."""
        self.retry = carried.retry
        self.waiting_for_retry = False
        self.in_flight = 0
        """How many calls and writes are under way."""
        self.gone = False
        """The run is over, here or for good: nothing more is begun in it."""
        self.overtaken = False
        """The database says that it is over, here at least; nothing that waits in this run goes on."""
        self.stands, self.stood = False, 0
        """Whether it stands still, since something on record can't be read; how often it did so before."""
        self.look = False
        """Somebody asks it to look whether it can be read now."""
        self.last_message = carried.heard
        """Ordinal of the last message from the outbox: they come in order."""
        self.expects = carried.expects
        """Ordinal of the last one that is on its way again."""
        self._version = carried.version
        self.on_record = 0
        """The newest version that this run knows to be on record."""
        self.began = _began(carried)
        """When the first run of this chain was started; 0 = before this was known."""
        self.started_at = carried.started_at or info.workflow_start_time
        self.gaps = carried.gaps
        """An effect without a record may have been performed all the same."""
        self._born = carried.born
        self._counted = carried.state
        """The state that was last counted as entered."""
        self._know_effects(carried)

    def _know_effects(self, carried: Carried) -> None:
        self._slots = {former: each.name for each in self.lifecycle.effects for former in each.formerly}
        self.again = {self._slot(slot): times for slot, times in carried.again.items()}
        self.ended = {key: how.model_copy(update={"slot": self._slot(how.slot)}) for key, how in carried.ended.items()}
        self.unsettled = dict(carried.unsettled)
        self.terms = dict(carried.terms)
        """Of the effects in this run, by the names that their keys carry; none where an older release began it."""
        self.performances: dict[str, Performance[Any, Any]] = {}
        known = carried.performed
        if known is None and carried.state is None:
            known = []
        self.performed_before = None if known is None else [self._slot(slot) for slot in known]
        """Effects whose performance ended in an earlier run, by name and suffix; this run may repeat them. None = not
        known."""
        self.performed: list[str] = []
        """Those whose performance ended in this run."""
        self.refused: set[str] = set()

    @property
    def final(self) -> bool:
        """Whether the lifecycle is over."""
        return self.states.on_record(self.state).final

    @property
    def doubts_left(self) -> list[Unsettled]:
        """What the run before had in doubt, and this one has not come back to."""
        return [each for each in self.unsettled.values() if each.known.effect.in_doubt]

    @property
    def dealt_with(self) -> list[str]:
        """Keys of effects that the entity may end with, whatever is on record of them: the author was told that they
        ended, or they were sent anew, or nobody waits for them."""
        names = {each.name: each.identity for each in self.lifecycle.effects}
        keys = {*self.ended, *(key for key, each in self.unsettled.items() if each.effect is None)}
        for slot, times in self.again.items():
            name, _, suffix = slot.partition("/")
            keys |= {Key.of(self.entity, names.get(name, name), suffix or None, number) for number in range(times)}
        return sorted(keys)

    def find_doubts(self, on_record: dict[str, EffectView]) -> list[Fence]:
        """Learn of doubts that stand on record, and that this run has not dealt with: attempts of workflow tasks that
        were lost, where the tasks that were made in their place took another way. A person settles them, but for those
        of effects that may be repeated: what is returned gives these up."""
        terms, given_up = all_terms(self.lifecycle.effects), []
        for key, view in on_record.items():
            effect, suffix, _ = Key(key).performance
            newest = Key.of(self.entity, effect, suffix, self.again.get(self._slot(slot_of(effect, suffix)), 0))
            known = terms.get(effect) if key == newest else None
            if known is not None and known.in_doubt.repeats:
                why = "its workflow task was lost, and the next one took another way"
                slot, token = slot_of(effect, suffix), view.token or ""
                given_up.append(
                    Fence(op=FenceOp.RESOLVE, key=key, effect=slot, token=token, status=Status.ABANDONED, why=why)
                )
            else:
                performance = None if known is None else (effect, suffix, known)
                self.unsettled[key] = found_on_record(view, workflow.now(), performance)
        return given_up

    @property
    def attention(self) -> str | None:
        """Why a person is wanted, whatever the state: it stands still, an effect is parked, a receipt does not fit."""
        effects: list[Performance[Any, Any] | Unsettled] = [*self.performances.values(), *self.unsettled.values()]
        parked = (each.attention for each in effects if each.known.effect.in_doubt or each.known.effect.too_large)
        return self.unread or next((why for why in parked if why), None)

    def wants(self, state: str) -> str | None:
        """What a person is wanted for, if one is."""
        if self.states.on_record(state).final:
            return None
        return self.attention or (f"{state} wants a person" if self.states.on_record(state).attention else None)

    def status(self) -> LifecycleStatus:
        """Where it is, and what it waits for."""
        return LifecycleStatus(
            lifecycle=self.entity.lifecycle,
            id=self.entity.id,
            round=self.entity.round,
            state=self.state,
            version=self.on_record,
            since=self.since,
            final=self.final,
            attention=self.wants(self.state),
            how_far=self.how_far,
            waits_for_retry=self.waiting_for_retry and self.retry is None and self.cancel is None,
            effects=[each.status() for each in self.performances.values()],
        )

    def arrived(self) -> None:
        """The run is where the one before it was."""
        self.catching_up = False

    def goes_first(self) -> None:
        """An effect was begun that is not on record, and no record was lost: no earlier run came so far."""
        if self.performed_before is None:
            self.performed_before = []

    def hear(self, ordinal: int) -> bool:
        """Whether the message of that place is new; from now on it is not."""
        if ordinal <= self.last_message:
            return False
        self.last_message = ordinal
        return True

    def kept(self) -> tuple[Any, int]:
        """The snapshot, and the last message that it holds: none without one, so that all would be told again."""
        taken = None if self.stands and not self.recalled_well else self.lifecycle.snapshot()
        return (self.recalled, 0) if taken is None else (taken.model_dump(mode="json"), self.last_message)

    def remembered(self) -> Any:
        """What a run that goes on from the mirror's record needs beside the snapshot; None = nothing."""
        return (
            Remembered(
                again=self.again, ended=self.ended, cancel=self.cancel, cancelling=self.was_cancelling
            ).model_dump(mode="json", exclude_defaults=True)
            or None
        )

    def _memo(self) -> dict[str, Any]:
        unsettled = self.unsettled | {key: each.unsettled() for key, each in self.performances.items()}
        # A run that leaves an effect unsettled may not have come to all that earlier runs did.
        earlier = (self.performed_before or []) if unsettled else []
        return {
            CARRIED: Carried(
                round=self.entity.round,
                version=self._version,
                state=self.state,
                since=self.since,
                snapshot=self.kept()[0],
                again=self.again,
                ended=self.ended,
                unsettled=unsettled,
                performed=list(dict.fromkeys(earlier + self.performed)),
                retry=self.retry,
                cancel=self.cancel,
                cancelling=self.was_cancelling,
                began=self.began,
                started_at=self.started_at,
                gaps=self.gaps,
                heard=self.last_message,
                terms=all_terms(self.lifecycle.effects),
            )
        }

    def _slot(self, slot: str) -> str:
        """Today's name of an effect with its suffix."""
        name, _, suffix = slot.partition("/")
        return slot_of(self._slots.get(name, name), suffix)


def _began(carried: Carried) -> int:
    if carried.began is not None:
        return carried.began
    goes_on = carried.state is not None
    return 0 if goes_on else microseconds(workflow.info().workflow_start_time)


def microseconds(at: datetime) -> int:
    """Since 1970, as versions and epochs are counted."""
    return int(at.timestamp() * 1_000_000)


def _entity(workflow_id: str, lifecycle: str, round: int) -> Entity:
    try:
        entity = Entity.of_workflow(workflow_id, lifecycle, round)
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
