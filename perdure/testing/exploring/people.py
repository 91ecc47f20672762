"""People in virtual time: they make random requests, and resolve doubts by what the other side has counted."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from temporalio.api.sdk.v1 import WorkflowMetadata

from perdure._reconcile.behind import Shown
from perdure._store.parked import is_of_an_effect
from perdure._wire.indexed import ATTENTION, STATE
from perdure._wire.names import MIRROR
from perdure._wire.requests import OperatorRequest, Resolution, SendAgain
from perdure._wire.status import LifecycleStatus
from perdure._workflow.details import details
from perdure.contracts.keys import Entity, Key, slot_of
from perdure.contracts.outcomes import EffectStatus, NotPerformed
from perdure.contracts.states import STARTING
from perdure.testing.exploring.database import belongs
from perdure.testing.exploring.executions import Execution
from perdure.testing.exploring.temporal import NotFound

if TYPE_CHECKING:
    from perdure.testing.exploring.workers import Worker
    from perdure.testing.exploring.world import World

_NAME = "a person"
GIVEN_UP = re.compile(r"(?P<key>\S+) was given up, so a retry would make no call: use send_again")
"""The part of the refusal of a retry that names the effect to send again instead."""


class People:
    """Operators and reconciliation."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._updates = 0
        self._reconciled: set[Entity] = set()

    def cancel(self, entity: Entity) -> None:
        """Request the cancellation."""
        self._update(entity, "cancel", OperatorRequest(by=_NAME, note="not wanted"))

    def retry(self, entity: Entity) -> None:
        """Request the next attempt now, or follow the advice in the refusal."""
        ended = self._ended(entity)
        answer = self._update(entity, "retry_now", OperatorRequest(by=_NAME))
        if answer is not None:
            answer.add_done_callback(lambda answer: self._has_asked_for_retry(entity, ended, answer))

    def _has_asked_for_retry(self, entity: Entity, ended: list[str], answer: asyncio.Future[None]) -> None:
        if answer.cancelled():
            return
        if (refusal := answer.exception()) is None:  # a later run performs anew what had ended before
            self._world.observed.performed_again |= {*ended}
        elif named := GIVEN_UP.search(str(refusal)):
            self._update(entity, "send_again", SendAgain(by=_NAME, effect=named["key"]))

    def send_again(self, entity: Entity) -> None:
        """Request that the effect which ended last is sent again, under a new key."""
        ended = self._ended(entity)
        self._update(entity, "send_again", SendAgain(by=_NAME, effect=ended[-1] if ended else None))

    def _ended(self, entity: Entity) -> list[str]:
        """Keys of the effects that have ended without being done, the last one at the end."""
        results = self._world.observed.results
        mine = [(each[-1].at, key) for key, each in results.items() if belongs(key, entity)]
        return [key for _, key in sorted(mine) if isinstance(results[key][-1].end, NotPerformed)]

    def confirm(self, entity: Entity) -> None:
        """Send a message that confirms what the other side has done, as a webhook does."""
        world = self._world
        accounts = sorted(world.other_side.accounts.items())
        done = [key for key, each in accounts if each.done_at and belongs(key, entity)]
        if done and world.subject.secret is not None:  # only random lifecycles can read it
            effect, suffix, _ = Key(world.random.choice(done)).performance
            world.observed.settled_by_person |= {Key.of(entity, effect, suffix, number) for number in range(9)}
            world.relay.send(world.database.rows[entity.id], f" confirms {slot_of(effect, suffix)}")

    def append(self, entity: Entity) -> None:
        """Send the author's own update, which counts as received once it is answered."""
        world = self._world
        if world.subject.secret is None:
            return
        self._updates += 1
        text = f"update {self._updates}"

        def ended(answer: asyncio.Future[None]) -> None:
            if not answer.cancelled() and answer.exception() is None and entity not in world.observed.ending:
                world.observed.acknowledged[entity].append(text)

        if (answer := self._update(entity, "append", text)) is not None:
            answer.add_done_callback(ended)

    def reconcile(self, entity: Entity) -> None:
        """Let mirror and Temporal agree again after a restore: open entities continue, and running ones mirror their
        state."""
        self._world.relay.recover()
        with suppress(NotFound):
            self._world.temporal.signal(entity.workflow_id(None), MIRROR, "reconciliation")

    def help(self, entity: Entity) -> bool:
        """Do what is needed where nothing goes on by itself; False if there is nothing that anybody could do."""
        world = self._world
        if not any(each.takes_work for each in world.workers):
            world.start_worker()
            return True
        execution = world.temporal.executions.get(entity.workflow_id(None))
        if execution is None or not execution.open:
            return self._reconcile(entity, execution)
        worker, row = self._worker_of(execution), world.database.rows[entity.id]
        status = None if worker is None else worker.query(execution.run, "status")
        if worker is None or status is None:
            return False
        self._compare(entity, status)
        self._compare_lists(entity, execution, status)
        self._compare_details(entity, status, worker.query(execution.run, "__temporal_workflow_metadata"))
        if parked := [each for each in status["effects"] if each["parked"]]:
            if not world.database.moves(entity)[-1].attention:
                world.found("parked without attention", f"{entity}: {parked[0]['effect']}")
            on_record = world.database.store.effects().get(parked[0]["key"])
            if on_record is not None and not on_record.in_doubt and on_record.attempts >= parked[0]["attempts"]:
                world.found("parked, and known", f"{entity}: {parked[0]['effect']}")
            self._resolve(entity, parked[0]["key"])
            return True
        if status["waits_for_retry"]:
            if world.random.random() < 0.5:
                self.send_again(entity)
            self.retry(entity)
            return True
        if world.subject.messages and len(row.messages) < world.subject.sends:
            world.relay.send(row)
            return True
        return False

    def _compare(self, entity: Entity, status: Any) -> None:
        """While nothing happens, the mirror shows the state of the workflow, and why a person is needed; if an order of
        a run or task that Temporal has lost may have come late, after a reconciliation, if that sees the difference."""
        world, state, attention = self._world, status["state"], status["attention"]
        newest = world.database.moves(entity)[-1]
        shown, why = newest.state, newest.attention
        if shown == STARTING:
            shown = world.subject.app_with(entity.lifecycle).lifecycle(entity.lifecycle).declared.initial.value
        if (shown == state and _same_reason(why, attention)) or world.observed.records_lost:
            return
        overtook = world.observed.tasks_lost and world.temporal.went_back  # by a version from before
        mirror = Shown(shown, why, world.database.store.version(entity))
        excused = (world.observed.histories_lost or overtook) and entity not in self._reconciled
        if excused and mirror.differs_from(LifecycleStatus.model_validate(status)):
            self._reconciled.add(entity)
            world.temporal.signal(entity.workflow_id(None), MIRROR, "reconciliation")
        elif shown != state:
            world.found("the mirror shows another state", f"{entity}: {shown}, and its workflow is in {state}")
        else:
            world.found("the mirror shows another reason", f"{entity}: {why}, and its workflow has {attention}")

    def _compare_lists(self, entity: Entity, execution: Execution, status: Any) -> None:
        """While nothing happens, Temporal's lists show the same as the workflow."""
        indexed = execution.indexed
        if STATE.name not in indexed:
            return
        state, attention = status["state"], status["attention"]
        shown, why = indexed[STATE.name], indexed.get(ATTENTION.name)
        if shown != state:
            self._world.found("Temporal's lists show another state", f"{entity}: {shown}, and it is in {state}")
        if not _is_word_for(why, attention, state, [each["effect"] for each in status["effects"] if each["parked"]]):
            self._world.found("Temporal's lists show another reason", f"{entity}: {why}, and it has {attention}")

    def _compare_details(self, entity: Entity, status: Any, metadata: WorkflowMetadata) -> None:
        """While nothing happens, the Web UI shows the same as the workflow."""
        shown, present = metadata.current_details, details(LifecycleStatus.model_validate(status))
        if shown != present:
            self._world.found("the Web UI shows something else", f"{entity}: {shown}\n\nand it is:\n\n{present}")

    def compare_lists_at_end(self, entity: Entity) -> None:
        """Temporal's lists show the final state."""
        world = self._world
        execution = world.temporal.executions.get(entity.workflow_id(None))
        if execution is None or execution.outcome != "completed" or world.observed.records_lost:
            return
        state = world.database.moves(entity)[-1].state
        if (shown := execution.indexed.get(STATE.name, state)) != state:
            world.found("Temporal's lists show another end", f"{entity}: {shown}, and it ended in {state}")

    def status(self, execution: Execution) -> Any:
        """The answer of the query `status`; None = no worker can give it."""
        worker = self._worker_of(execution)
        return None if worker is None else worker.query(execution.run, "status")

    def _worker_of(self, execution: Execution) -> Worker | None:
        sticky = execution.tasks.sticky
        return sticky if sticky and sticky.takes_work else self._world.worker_for(execution.run.lifecycle)

    def _reconcile(self, entity: Entity, execution: Execution | None) -> bool:
        end_lost = self._world.observed.records_lost
        if execution is not None and execution.outcome != "terminated" and not end_lost:
            what = f"{entity}: {execution.outcome} {execution.failure or ''}"
            self._world.found("ended without a final state", what)
            return False
        self._world.relay.recover()
        return True

    def _resolve(self, entity: Entity, key: str) -> None:
        world = self._world
        effect, suffix, _ = Key(key).performance  # not its new name, which workers of an older build do not know
        account = world.other_side.accounts[key]
        outcome = EffectStatus.DONE if account.done_at else EffectStatus.NOT_DONE
        if world.random.random() < 0.2:
            outcome = EffectStatus.ABANDONED
        receipt = account.receipt_json if outcome is EffectStatus.DONE else None
        world.cover("resolved", outcome.value)
        world.observed.settled_by_person.add(key)
        slot = slot_of(effect, suffix)
        resolution = Resolution(by=_NAME, note="looked", effect=slot, outcome=outcome, receipt=receipt)
        self._update(entity, "resolve", resolution)

    def _update(self, entity: Entity, name: str, argument: Any) -> asyncio.Future[None] | None:
        try:
            return self._world.temporal.update(entity.workflow_id(None), name, argument)
        except NotFound:
            return None


def _is_word_for(shown: str | None, attention: str | None, state: str, parked: list[str]) -> bool:
    """Whether the search attribute names the reason for which a person is needed, or one of several effects."""
    if shown is None or attention is None:
        return shown == attention
    kind, _, name = shown.partition(": ")
    match kind:
        case "in doubt" | "receipt":
            return is_of_an_effect(attention) and any(each.startswith(name) for each in (attention, *parked))
        case "state":
            return name == state and not is_of_an_effect(attention)
        case _:
            return not is_of_an_effect(attention)


def _same_reason(shown: str | None, present: str | None) -> bool:
    """Whether the mirror shows the reason of the workflow; of several effects that need a person, each run shows
    another one."""
    return shown == present or all(map(is_of_an_effect, (shown, present)))
