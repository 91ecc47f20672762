"""The commits of the application, and the relay that delivers them, in virtual time."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

from temporalio.common import SearchAttributePair, TypedSearchAttributes

from perdure._store.record import carried_from
from perdure._wire.carried import CARRIED, Carried
from perdure._wire.indexed import STATE, need_a_person
from perdure._wire.messages import Message
from perdure._wire.names import MESSAGE, WAKE
from perdure._wire.terms import all_terms
from perdure.client.naming import input_text
from perdure.contracts.keys import Entity
from perdure.testing.exploring.database import Row, VirtualDatabase
from perdure.testing.exploring.temporal import AlreadyStarted, NotFound

if TYPE_CHECKING:
    from perdure.testing.exploring.world import World

DELAY = 0.03
"""Seconds from a commit to its delivery, and from there to the commit of that."""
AGAIN = 5.0
"""Seconds after which another relay delivers once more what one delivered that crashed before it committed that."""
RECONCILED = 300
"""Deliveries of a message, a second apart, after which reconciliation looks for the workflow that it does not reach."""
_LATE = 0.1
"""How likely that is."""


def _given(payload: Any, number: int) -> Any:
    return payload(number) if callable(payload) else payload


class VirtualRelay:
    """Delivers starts and messages, each entity's in their order, and wakes runs whose outcomes come late."""

    def __init__(self, world: World, database: VirtualDatabase) -> None:
        self._world, self._database = world, database
        self._random = Random(f"relay {world.scenario.seed}")
        database.on_late = self.wake

    def start(self, entity: Entity, given: Any) -> None:
        """The application commits a start."""
        kind = self._world.subject.builds[0].lifecycle(entity.lifecycle)
        row = self._database.start(entity, json.loads(input_text(entity, kind, given)))
        terms = all_terms(kind.effects)
        at = row.created_at
        carried = Carried(generation=entity.generation, started_at=at, born=at, terms=terms)
        self._world.loop.call_later(DELAY, self._start, row, carried)

    def send(self, row: Row, more: str = "") -> None:
        """The application commits a message; `more` is added to its text."""
        messages, count = self._world.subject.messages, len(row.messages)
        name, payload = messages[count % len(messages)]
        self._send(row, name, f"{payload(count + 1)}{more}" if more else _given(payload, count + 1))

    def _send(self, row: Row, name: str, payload: Any) -> None:
        row.messages.append((name, payload))
        self._world.loop.call_later(DELAY, self._deliver, row)

    async def start_by_step(self, entity: Entity, given: Any) -> None:
        """See `RelayRoom`."""
        if entity.id not in self._database.rows:
            self.start(entity, given)

    async def send_by_step(self, entity_id: str, text: str) -> None:
        """See `RelayRoom`."""
        row = self._database.rows[entity_id]
        if all(payload != text for _, payload in row.messages):
            self._send(row, self._world.subject.messages[0][0], text)

    def send_again(self, row: Row) -> None:
        """A message that was delivered is delivered once more, as by a relay that was killed before its commit."""
        if row.delivered:
            self._signal(row, self._world.random.randrange(row.delivered))

    def wake(self, key: str) -> None:
        """An outcome came late."""
        lifecycle, identity, _ = key.split("/", 2)
        row = self._database.rows[identity.partition("~")[0]]
        assert row.entity.lifecycle == lifecycle
        self._world.loop.call_later(DELAY, self._wake, row, key)

    def recover(self) -> None:
        """Act as `perdure recover`: open entities without a workflow continue from their record."""
        world = self._world
        for row in self._database.rows.values():
            known = world.temporal.executions.get(row.entity.workflow_id(None))
            if (known is not None and known.open) or self._database.is_final(row.entity) or not row.on_record:
                continue
            world.observed.from_record = True
            self._start(row, self._recorded(row))

    def _recorded(self, row: Row) -> Carried:
        """The data from which a run continues if its entity has a record."""
        record, store = self._database.record(row), self._database.store
        terms = all_terms(self._world.subject.builds[0].lifecycle(row.entity.lifecycle).effects)
        row.delivered = record.acknowledged
        carried = carried_from(record, row.entity.generation, store.version(row.entity), terms, epoch=store.epoch)
        return carried.model_copy(update={"gaps": store.lost_since_its_start(row.entity)})

    def _start(self, row: Row, carried: Carried) -> None:
        entity, world, indexed = row.entity, self._world, TypedSearchAttributes.empty
        if world.scenario.indexed:
            declared = world.subject.builds[0].lifecycle(entity.lifecycle).declared
            state = declared.today(carried.state or declared.initial.value)
            indexed = TypedSearchAttributes([SearchAttributePair(STATE, state)])
            carried = carried.model_copy(update={"indexed": need_a_person(declared)})
        try:
            world.temporal.start(entity.workflow_id(None), entity.lifecycle, row.given, {CARRIED: carried}, indexed)
        except AlreadyStarted:
            if entity.generation and not row.started:  # the run of the generation before is still closing
                world.loop.call_later(0.5, self._start, row, carried)
            return
        row.started = True
        self._deliver(row)
        world.loop.call_later(DELAY, self._commit, row, carried)

    def _commit(self, row: Row, carried: Carried) -> None:
        """Record that the start is delivered. If the relay is killed before that, another one delivers it again."""
        world, database, entity = self._world, self._database, row.entity
        if row.on_record:
            return
        away = max(database.away_until - world.loop.time(), 0.0)
        if away or self._random.random() < _LATE:
            world.loop.call_later(away + AGAIN, self._start_again, row, carried)
            return
        initial = world.subject.app_with(entity.lifecycle).lifecycle(entity.lifecycle).declared.initial.value
        database.store.delivered(entity, initial)
        row.on_record = True

    def _start_again(self, row: Row, carried: Carried) -> None:
        """Deliver a start again that is not recorded as delivered: the server has it, or has lost it."""
        if self._database.rows[row.entity.id] is not row or self._database.is_final(row.entity):
            row.on_record = True  # no run waits for it any more
        if not row.on_record:
            row.delivered = 0
            store = self._database.store
            written, attempted = store.version(row.entity) > 0, self._database.attempted(row.entity)
            gaps = {"gaps": attempted or store.lost_since_its_start(row.entity)}
            self._start(row, self._recorded(row) if written else carried.model_copy(update=gaps))
            self._world.loop.call_later(DELAY, self._commit, row, carried)

    def _deliver(self, row: Row, tries: int = 1) -> None:
        while row.started and row.delivered < len(row.messages):
            if not self._signal(row, row.delivered):
                if tries % RECONCILED == 0:
                    self.recover()
                self._world.loop.call_later(1.0, self._deliver, row, tries + 1)
                return
            row.delivered += 1

    def _signal(self, row: Row, index: int) -> bool:
        name, payload = row.messages[index]
        now = self._world.loop.now
        message = Message(ordinal=index + 1, id=str(index), kind="signal", name=name, payload=payload, read_at=now)
        try:
            self._world.temporal.signal(row.entity.workflow_id(None), MESSAGE, message)
        except NotFound:
            return self._database.is_final(row.entity)  # it comes too late
        return True

    def _wake(self, row: Row, key: str) -> None:
        if self._database.is_final(row.entity):
            return
        try:
            self._world.temporal.signal(row.entity.workflow_id(None), WAKE, key)
        except NotFound:
            return
